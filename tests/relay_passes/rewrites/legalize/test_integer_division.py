"""Integer divisions do not end the process: by zero they give 0, the least integer by -1 itself."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from tvm import relax
from tvm.relax import op

import tvm_stitch
from support.frontend.case import model
from support.kernels import memory
from support.models.relax_models import module
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import import_model


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    x = rng.integers(info.min, info.max, 997, dtype, endpoint=True)
    y = rng.integers(-2 if info.min else 0, 3, 997).astype(dtype)
    x[:2], y[:2] = info.min, (0, -1 if info.min else 1)
    return x, y


def exactly(x: np.ndarray, y: np.ndarray, quotient: bool) -> np.ndarray:
    """Return x / y rounded to zero, or x modulo y with the sign of y, wrapped, 0 where y is 0."""
    if not quotient:
        return np.array([int(a) % int(b) if b else 0 for a, b in zip(x, y, strict=True)], x.dtype)
    pairs = [(abs(int(a)), abs(int(b)), (a < 0) != (b < 0)) for a, b in zip(x, y, strict=True)]
    values = [0 if not b else a // b * (-1 if negative else 1) for a, b, negative in pairs]
    bits = 8 * x.dtype.itemsize
    return np.array([v % (1 << bits) for v in values], f"u{x.dtype.itemsize}").view(x.dtype)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("fusion", ["stitch", "none"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_no_divisor_ends_the_process(dtype, fusion):
    x, y = operands(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    nodes = [helper.make_node("Div", ["x", "y"], ["q"]), helper.make_node("Mod", ["x", "y"], ["r"])]
    proto = model(nodes, {n: (kind, x.shape) for n in "xy"}, {n: (kind, None) for n in "qr"})
    compiled = tvm_stitch.compile(proto, threads=1, fusion=fusion)

    def work() -> None:
        got = compiled.run({"x": x, "y": y})
        np.testing.assert_array_equal(got["q"], exactly(x, y, quotient=True))
        np.testing.assert_array_equal(got["r"], exactly(x, y, quotient=False))

    assert memory.in_child(work) == 0


def test_floor_divisions_of_relax_do_not_either():
    x, y = operands("int64")
    mod = module(lambda _, x, y: (op.floor_divide(x, y), op.mod(x, y)), x, y)
    compiled = tvm_stitch.compile(mod, threads=1)

    def work() -> None:
        floor, rest = compiled.run({"x0": x, "x1": y}).values()
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(floor, np.where(y == 0, 0, x // y))
            np.testing.assert_array_equal(rest, np.where(y == 0, 0, np.fmod(x, y)))

    assert memory.in_child(work) == 0


@pytest.mark.parametrize("kind", ["Div", "Mod"])
@pytest.mark.parametrize("folded", [False, True])
def test_a_constant_zero_is_refused_with_the_nodes_name(kind, folded):
    nodes = [
        helper.make_node("Sub", ["three", "three"], ["zero"]),
        helper.make_node(kind, ["three" if folded else "x", "zero"], ["h"], name="by/zero"),
        helper.make_node("Add", ["x", "h"], ["y"]),
    ]
    int64 = helper.np_dtype_to_tensor_dtype(np.dtype("int64"))
    proto = model(nodes, {"x": (int64, [2])}, {"y": (int64, None)}, {"three": np.array([3, 3])})
    with pytest.raises(StitchError, match="'by/zero': it divides integers by a constant 0"):
        import_model(proto)


@pytest.mark.parametrize("divide", [op.divide, op.floor_divide, op.mod, op.floor_mod])
def test_a_constant_zero_is_refused_in_relax(divide):
    zeros = np.zeros(100, np.int64)
    mod = module(lambda _, x: divide(x, relax.const(zeros, "int64")), zeros)
    with pytest.raises(StitchError, match="divides integers by a constant 0"):
        import_model(mod)


def test_the_least_integer_by_a_constant_minus_one_is_itself():
    least = np.array([-(1 << 31), 7], np.int32)
    int32 = helper.np_dtype_to_tensor_dtype(least.dtype)
    nodes = [
        helper.make_node("Div", ["least", "one"], ["folded"]),
        helper.make_node("Div", ["x", "one"], ["q"]),
        helper.make_node("Add", ["q", "folded"], ["y"]),
    ]
    weights = {"least": least, "one": np.array([-1], np.int32)}
    proto = model(nodes, {"x": (int32, [2])}, {"y": (int32, None)}, weights)
    compiled = tvm_stitch.compile(proto, threads=1)

    def work() -> None:
        np.testing.assert_array_equal(compiled.run({"x": least})["y"], [0, -14])

    assert memory.in_child(work) == 0
