"""Windows and histograms of exported PyTorch programs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/check_pythons.py)")

import tvm_stitch  # noqa: E402


class Call(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def same(function, x) -> None:
    got = torch.from_dlpack(tvm_stitch.compile(Call(function), (x,))(x))
    want = function(x)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("shape", "axis", "size", "step"),
    [
        ((7,), 0, 3, 2),
        ((2, 9, 3), 1, 4, 1),
        ((2, 9, 3), -1, 3, 1),
        ((4, 8), 0, 1, 3),
        ((5, 5), 1, 5, 9),
    ],
)
def test_unfold(shape, axis, size, step):
    same(lambda x: x.unfold(axis, size, step), torch.randn(*shape))


@pytest.mark.parametrize("bounds", [(4, -1.0, 1.0), (7, 0.0, 2.0), (1, -0.5, 0.5)])
def test_histc(bounds):
    same(lambda x: x.histc(*bounds), torch.randn(6, 7))


def test_histc_of_counts():
    same(lambda x: x.histc(8, 0, 7), torch.randint(0, 8, (40,)).float())


def test_histc_by_data_is_refused():
    with pytest.raises(tvm_stitch.StitchError, match="histc"):
        tvm_stitch.compile(Call(lambda x: x.histc(5)), (torch.randn(9),))


def test_a_list_of_nothing_goes_with_any_shape():
    same(lambda x: torch.cat([torch.empty(0), x, x], 1), torch.randn(2, 3, 4))
    same(lambda x: torch.cat([torch.empty(0), x], -1) + 1, torch.randn(2, 3))


def test_an_unsorted_topk_is_sorted():
    x = torch.randn(3, 9)
    made = tvm_stitch.compile(Call(lambda x: torch.topk(x, 4, sorted=False)), (x,))(x)
    values, places = (torch.from_dlpack(each) for each in made)
    assert torch.equal(values, torch.topk(x, 4).values)
    assert torch.equal(x.gather(1, places), values)


@pytest.mark.parametrize("weight", [None, torch.randn(6)])
def test_a_group_norm_without_bias(weight):
    x = torch.randn(2, 6, 5)
    norm = Call(lambda x: torch.nn.functional.group_norm(x, 3, weight))
    got = torch.from_dlpack(tvm_stitch.compile(norm, (x,))(x))
    torch.testing.assert_close(got, norm(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [(4, 0, 3), (0, 0, 7), (7, 0, 0)])
def test_rows_of_experts(sizes):
    ends = torch.tensor(sizes).cumsum(0)
    weights = torch.randn(3, 5, 6)
    moe = pytest.importorskip(
        "transformers.integrations.moe", reason="transformers is in the test extra"
    )
    x = torch.randn(7, 5)
    grouped = Call(lambda x: torch.ops.transformers.grouped_mm_fallback(x, weights, ends))
    got = torch.from_dlpack(tvm_stitch.compile(grouped, (x,))(x))
    torch.testing.assert_close(
        got, moe._grouped_mm_fallback(x, weights, ends), rtol=1e-5, atol=1e-5
    )
