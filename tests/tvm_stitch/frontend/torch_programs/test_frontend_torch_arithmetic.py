"""PyTorch's arithmetic on mixed types: as eager computes it, in the types that eager gives."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

import tvm_stitch
from tvm_stitch.errors import StitchError

torch = pytest.importorskip("torch")
torch_import = pytest.importorskip("tvm_stitch.frontend.torch_import")

LONG = torch.tensor([[-7, 0, 3, 9], [5, -2, 7, 1]])
INT = LONG.to(torch.int32)
FLOAT = torch.tensor([[-2.5, 0.25, 3.5, 1e3], [-0.75, 7.5, 2.0, -9.0]])
MASK = LONG > 1

FUNCTIONS = {
    "float less integers": (lambda i: 1.0 - i * 0.5, LONG),
    "mask times the least float": (lambda i: (1.0 - i) * torch.finfo(torch.float32).min, LONG),
    "integers in a true division": (lambda i: i / 4, LONG),
    "two integers in a true division": (lambda i: i / (i * i + 1), INT),
    "integers of two widths": (lambda i: i + i.to(torch.int32) * 3, LONG),
    "floats beside integers": (lambda i: i * 0.5 + torch.arange(4), LONG),
    "alpha": (lambda x: torch.add(x, x * x, alpha=3), FLOAT),
    "alpha of a difference": (lambda i: torch.sub(2 * i, i, alpha=3), LONG),
    "mask and number": (lambda m: m * 3 + m, MASK),
    "comparison with a fraction": (lambda i: i > 2.5, LONG),
    "powers of integers": (lambda i: i**2, LONG),
    "floored float": (lambda x: torch.div(x, 2, rounding_mode="floor"), FLOAT),
    "floored integers": (lambda i: torch.div(i, 2, rounding_mode="floor"), LONG),
    "truncated float": (lambda x: torch.div(x, 2, rounding_mode="trunc"), FLOAT),
    "truncated integers": (lambda i: torch.div(i, 2, rounding_mode="trunc"), LONG),
    "truncated by a tensor": (lambda i: torch.div(i, i * 0 + 3, rounding_mode="trunc"), LONG),
    "floor_divide": (lambda x: x // 2, FLOAT),
    "floor_divide of integers": (lambda i: i // 4, LONG),
    "remainder": (lambda i: i % 4, LONG),
    "logarithm of integers": (lambda i: torch.log(i.abs() + 1), LONG),
    "sigmoid of a mask": (torch.sigmoid, MASK),
    "square root of integers": (lambda i: torch.sqrt(i.abs().float()), LONG),
    "clamp from below": (lambda i: i.clamp(min=0), LONG),
    "clamp from above": (lambda i: i.clamp(max=4), INT),
    "clamp between": (lambda i: i.clamp(-1, 4), LONG),
    "clamp integers at a fraction": (lambda i: i.clamp(min=0.5), LONG),
    "clamp by tensors": (lambda i: torch.clamp(i, i * 0, i * 0 + 4), LONG),
    "clamp floats": (lambda x: x.clamp(-1.5, 4), FLOAT),
    "clamp floats from above": (lambda x: x.clamp(max=4), FLOAT),
    "clamp floats by tensors": (lambda x: torch.clamp(x, x * 0 - 1, x * 0 + 4), FLOAT),
    "clamp_max": (lambda x: torch.clamp_max(x, 0.5), FLOAT),
    "clamp_min": (lambda x: torch.clamp_min(x, 0.5), FLOAT),
    "counts of a mask": (lambda m: m.cumsum(1), MASK),
    "sums of 32-bit integers": (lambda i: i.cumsum(-1), INT),
    "products of 32-bit integers": (lambda i: i.cumprod(0), INT),
    "sums of floats": (lambda x: x.cumsum(1), FLOAT),
    "amax": (lambda x: x.amax((0, 1)), FLOAT),
    "amax of one axis": (lambda x: x.amax(-1, keepdim=True), FLOAT),
    "amin": (lambda i: i.amin(0), LONG),
    "range that counts down": (lambda i: i + torch.arange(7, 0, -2), LONG),
    "range of fractions": (lambda x: x + torch.arange(0, 1, 0.25), FLOAT),
}


def compiled(function, *tensors: torch.Tensor) -> tvm_stitch.Model:
    class Net(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    return tvm_stitch.compile(torch.export.export(Net(), tensors), threads=1)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_mixed_types_are_computed_as_eager_does(name):
    function, given = FUNCTIONS[name]
    wanted = function(given).numpy()
    got = torch.from_dlpack(compiled(function, given)(given)).numpy()
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_clamp_keeps_nan():
    given = torch.tensor([float("nan"), 1.0, float("inf"), -float("inf")])
    for function in (lambda x: x.clamp(0, 3), lambda x: torch.clamp_max(x, 3)):
        got = torch.from_dlpack(compiled(function, given)(given)).numpy()
        np.testing.assert_array_equal(got, function(given).numpy())


def test_an_importer_that_makes_another_type_than_pytorch_is_refused(monkeypatch):
    def rounded(node, importer):
        return importer.block_builder.emit(relax.op.astype(importer.env[node.args[0]], "int32"))

    monkeypatch.setitem(torch_import.CONVERTERS, "relu.default", rounded)
    with pytest.raises(StitchError, match=r"relu.*makes int32 of it, not float32"):
        compiled(torch.relu, FLOAT)
