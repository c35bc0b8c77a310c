"""PyTorch's operators: arguments that TVM's importer leaves out, and operators that it lacks."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/check_pythons.py)")

from torch.nn import functional as F  # noqa: E402

import tvm_stitch  # noqa: E402
from support.frontend import aten  # noqa: E402


def same(function, *given) -> None:
    call = aten.Call(function, (given, {}))
    assert aten.wrong(call) == ("", True)


IMAGE = torch.randn(2, 3, 5, 7)


@pytest.mark.long(every=2)
@pytest.mark.parametrize("axis", range(3))
def test_selu_and_elu_are_scaled(axis):
    x = torch.randn(4, 5, 6).select(axis, 0)
    same(F.selu, x)
    same(lambda y: F.elu(y, 0.7), x)
    same(lambda y: torch.ops.aten.elu(y, 1.5, 2.0, 0.5), x)


@pytest.mark.long(every=6)
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("how", [{"scale_factor": 1.7}, {"scale_factor": (0.6, 2.0)},
                                 {"size": (7, 8)}, {"size": (3, 14)}])  # fmt: skip
def test_images_are_resized_by_the_scale_that_is_given(mode, how):
    same(lambda x: F.interpolate(x, mode=mode, **how), IMAGE)


@pytest.mark.long(every=2)
@pytest.mark.parametrize(("mode", "how"), [
    ("bilinear", {"size": (3, 3)}), ("bicubic", {"scale_factor": 2}),
    ("bilinear", {"size": (8, 4), "align_corners": True}),
])  # fmt: skip
def test_weights_of_float64_are_float64(mode, how):
    same(lambda x: F.interpolate(x, mode=mode, **how), IMAGE.double())


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_are_smoothed_before_they_are_made_smaller(mode):
    same(lambda x: F.interpolate(x, size=(3, 2), mode=mode, antialias=True), IMAGE)


def test_windows_are_divided_by_what_is_given():
    same(lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=2), IMAGE)
    same(lambda x: F.avg_pool3d(x, (2, 3, 2), 2, 1, divisor_override=5), IMAGE)
    same(lambda x: F.avg_pool3d(x, 2), IMAGE)


@pytest.mark.long(every=2)
@pytest.mark.parametrize(("options", "grouped"), [
    ({"stride": 2, "padding": 1, "output_padding": 1}, 1), ({"stride": (1, 3, 2), "groups": 2}, 2),
    ({"dilation": (2, 1, 3), "padding": (0, 1, 2)}, 1),
])  # fmt: skip
@pytest.mark.parametrize("batch", [(), (2,)])
def test_volumes_are_convolved_backwards(options, grouped, batch):
    x, weight, bias = torch.randn(*batch, 4, 5, 3, 7), torch.randn(4, 6, 3, 2, 3), torch.randn(6)
    same(lambda x: F.conv_transpose3d(x, weight, bias.repeat(grouped), **options), x)


@pytest.mark.long(every=6)
@pytest.mark.parametrize("form", [(3, 2, 1, 1), (2, 2, 0, 1), (2, 1, 1, 2), ((2, 3), (1, 2), 1, 1)])
@pytest.mark.parametrize("ceil", [False, True])
def test_places_of_the_largest_of_windows(form, ceil):
    x = IMAGE.clone()
    x[0, 0, 1, 2], x[0, 1, 2, 3], x[1, 1] = math.nan, -math.inf, 3.0
    same(lambda y: F.max_pool2d(y, *form, ceil_mode=ceil, return_indices=True), x)


@pytest.mark.long(every=2)
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 4), (7, 9)])
def test_adaptive_windows(size):
    same(lambda x: F.adaptive_max_pool2d(x, size), IMAGE)


def test_bools_are_multiplied_and_added():
    given = torch.randint(0, 2, (2, 5, 6)).bool()
    same(lambda x, y: x * y, *given)
    same(lambda x, y: (x + y, torch.maximum(x, y), torch.minimum(x, y)), *given)


@pytest.mark.long(every=2)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_the_least_of_numbers_and_of_nan(dim, keepdim):
    x = torch.randint(0, 4, (5, 6)).float()
    x[1, 2], x[1, 4], x[3, 3] = math.nan, math.nan, -math.inf
    same(lambda y: (torch.min(y, dim, keepdim), torch.max(y, dim, keepdim)), x)


@pytest.mark.long(every=2)
@pytest.mark.parametrize(("dtype", "keepdim"), [(torch.float32, False), (torch.float16, True)])
def test_places_and_medians_of_nan(dtype, keepdim):
    x = torch.randn(5, 6, dtype=dtype)
    x[1, 2], x[1, 4], x[3, 0], x[4, 1] = math.nan, math.nan, math.nan, math.inf
    same(lambda y: (y.argmax(1, keepdim), y.argmin(0, keepdim), y.median(1, keepdim).values), x)
    same(lambda y: (y.argmax(keepdim=keepdim), y[2].argmin(), y.median(), y[2].median()), x)
    same(lambda y: y[::2].median(1, keepdim), x)


def test_an_element_is_taken_by_a_number():
    same(lambda x, i: (x.take(i), x[0].take(i)), torch.randn(1, 1), torch.tensor(0))


def test_moments():
    x = torch.randn(3, 4, 5) + 100
    same(lambda y: torch.var_mean(y, (0, -1), correction=0), x)
    same(lambda y: torch.std_mean(y, 1, keepdim=True), x)
    same(lambda y: torch.ops.aten.native_layer_norm(y, (4, 5), None, None, 1e-3), x)
    same(lambda y: torch.ops.aten.native_layer_norm(y[:1, :1, :1], (1,), None, None, 1e-3), x)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, math.inf, -math.inf])
def test_norms_of_differences(p):
    x, y = torch.randn(4, 6), torch.randn(5, 6)
    same(lambda a: torch.linalg.vector_norm(a, p, dim=1), x)
    if p >= 0:
        same(lambda a, b: (torch.cdist(a, b, p), F.pdist(a, p)), x, y)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scattered_numbers_are_reduced(reduce, include):
    x, index = torch.randn(4, 5), torch.randint(0, 4, (3, 5))
    same(lambda a, i, v: a.scatter_reduce(0, i, v, reduce, include_self=include),
         x, index, torch.randn(3, 5))  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int32])
def test_more_numbers_than_a_half_counts_to_are_scattered(dtype):
    x, ones = torch.zeros(2, dtype=dtype), torch.ones(300, dtype=dtype)
    same(lambda a, i, v: (a.scatter_reduce(0, i, v, "mean"), a.scatter_add(0, i, v)),
         x, torch.zeros(300).long(), ones)  # fmt: skip


@pytest.mark.long(every=2)
@pytest.mark.parametrize("include", [False, True])
def test_scattered_bools_are_reduced(include):
    x, v, index = *torch.randint(0, 2, (2, 5)).bool(), torch.randint(0, 4, (5,))
    for reduce in ("sum", "prod", "amax", "amin"):
        same(lambda a, i, b, r=reduce: a.scatter_reduce(0, i, b, r, include_self=include),
             x, index, v)  # fmt: skip
    same(lambda a, i, b: a.scatter_add(0, i, b), x, index, v)


def test_parts_are_written():
    x = torch.randn(4, 5, 6)
    same(lambda a, v: torch.select_scatter(a, v, -2, 3), x, torch.randn(4, 6))
    same(lambda a, v: torch.diagonal_scatter(a, v, 1, 2, 0), x, torch.randn(5, 3))
    same(lambda a, m, v: a.masked_scatter(m, v), x, x > 0, torch.randn(200))
    same(lambda a: torch.as_strided(a, (2, 3, 2), (1, 7, 0), 5), x)
    same(lambda a: torch.narrow_copy(a, 1, 2, 2), x)


@pytest.mark.long(every=7)
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("last", [False, True])
def test_bags_of_embeddings(mode, padding, last):
    weight, indices = torch.randn(9, 4), torch.randint(0, 9, (12,))
    offsets = torch.tensor([0, 3, 3, 7, *([12] if last else [])])
    same(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=padding,
                                         include_last_offset=last),
         weight, indices, offsets)  # fmt: skip


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_more_halves_than_a_half_counts_to(mode):
    weight, indices = torch.randn(9, 4).bfloat16() + 1, torch.randint(0, 9, (600,))
    same(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode),
         weight, indices, torch.tensor([0, 7]))  # fmt: skip


@pytest.mark.long(every=4)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("p", [3, 0, 1, 2, 4.5, math.inf])
def test_norms_of_halves_whose_powers_are_no_halves(dtype, p):
    x = (torch.randn(7, 70) * 30).to(dtype)
    same(lambda a: torch.linalg.vector_norm(a, p, dim=0), x)
    same(lambda a: torch.dist(a, a[0], p), x)
    same(lambda a: a.renorm(p or 2, 0, 50.0), x)


@pytest.mark.parametrize("right", [False, True])
def test_places_in_sorted_lines(right):
    lines, x = torch.randn(3, 9).sort().values, torch.randn(3, 4)
    x[0, 1] = math.nan
    x[1, 1] = lines[1, 4]
    same(lambda s, v: torch.searchsorted(s, v, right=right), lines, x)


def test_tensors_of_no_elements():
    same(torch.block_diag, torch.randn(2, 5), torch.randn(3))
    same(lambda x: (x.isfinite(), x @ x.mT, x.cumsum(1), x.long() + 1), torch.randn(2, 0, 3))


@pytest.mark.long(every=3)
@pytest.mark.parametrize("name", ["softmax", "cumsum", "topk", "kthvalue", "scatter_add", "gather",
                                  "amax", "argmax", "prod", "sort", "any"])  # fmt: skip
def test_numbers_have_an_axis(name):
    x, one = torch.randn(()), torch.zeros((), dtype=torch.int64)
    calls = {
        "topk": lambda a: a.topk(1),
        "kthvalue": lambda a: a.kthvalue(1),
        "gather": lambda a: a.gather(0, one),
        "scatter_add": lambda a: a.scatter_add(0, one, a),
    }
    same(calls.get(name, lambda a: getattr(a, name)(0)), x)


def test_what_is_random_is_refused():
    x = torch.randn(1, 2, 4, 8)
    for call in (lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5),
                 lambda q: F.dropout2d(q, 0.5, True)):  # fmt: skip
        program = torch.export.export(aten.Call(call, ((x,), {})), (x,))
        with pytest.raises(tvm_stitch.StitchError, match="random"):
            tvm_stitch.compile(program)


# One of each rule: scripts/check_all.py --only aten runs all operators in all types.
@pytest.mark.long(every=6)
@pytest.mark.parametrize("name", [
    "ldexp", "copysign", "fmax", "hypot", "heaviside", "angle", "clamp", "isclose", "logaddexp",
    "addmv", "addbmm", "index_reduce.amin", "put", "isin", "nn.functional.bilinear", "unbind_copy",
    "bucketize",
])  # fmt: skip
def test_samples_of_pytorch(name):
    found = [aten.wrong(call) for call in aten.calls(name, "float32", 1, 2)]
    assert [reason for reason, _ in found if reason] == []
    assert any(compiled for _, compiled in found)
