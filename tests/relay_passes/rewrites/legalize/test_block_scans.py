"""Cumulative sums and products against NumPy in float64: any axis, extent and type."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from tvm import relax

import tvm_stitch
from relay_passes.transform import BlockScans
from support.models import relax_models as rm

RNG = np.random.default_rng()


def cumulative_sum(
    shape: tuple[int, ...], axis: int, dtype: str, **attributes: int
) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("CumSum", ["x", "axis"], ["y"], **attributes)
    ins = [helper.make_tensor_value_info("x", kind, shape)]
    outs = [helper.make_tensor_value_info("y", kind, shape)]
    known = [numpy_helper.from_array(np.array(axis, "int64"), "axis")]
    graph = helper.make_graph([node], "scan", ins, outs, known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def numpys(x: np.ndarray, axis: int, exclusive: int = 0, reverse: int = 0) -> np.ndarray:
    wide = x.astype("float64") if x.dtype.kind == "f" else x
    wide = np.flip(wide, axis) if reverse else wide
    made = np.cumsum(wide, axis, dtype=wide.dtype)
    if exclusive:
        first = np.zeros_like(np.take(made, [0], axis))
        made = np.concatenate([first, np.delete(made, -1, axis)], axis)
    return np.flip(made, axis) if reverse else made


def compare(x: np.ndarray, axis: int, bound: float = 1e-5, **attributes: int) -> None:
    model = tvm_stitch.compile(cumulative_sum(x.shape, axis, str(x.dtype), **attributes), threads=2)
    assert model.report.fallbacks == 0
    got, ref = model.run({"x": x})["y"], numpys(x, axis, **attributes)
    assert got.dtype == x.dtype
    if x.dtype.kind != "f":
        np.testing.assert_array_equal(got, ref)
        return
    assert np.all(np.abs(got - ref) <= bound * (np.abs(ref) + np.abs(ref).max()))


@settings(max_examples=5, deadline=None)
@given(
    before=st.sampled_from([(), (3,), (2, 5)]),
    extent=st.sampled_from([1, 2, 7, 16, 17, 48, 131, 256, 1021]),
    behind=st.sampled_from([(), (1,), (19,)]),
    dtype=st.sampled_from(["float32", "float64", "int32", "int64"]),
    exclusive=st.booleans(),
    reverse=st.booleans(),
)
def test_any_axis_of_any_extent(before, extent, behind, dtype, exclusive, reverse):
    shape = (*before, extent, *behind)
    x = (RNG.standard_normal(shape) * 100).astype(dtype)
    axis = len(before) - (len(shape) if RNG.random() < 0.5 else 0)
    compare(x, axis, exclusive=int(exclusive), reverse=int(reverse))


def test_three_levels_of_blocks():
    compare(RNG.standard_normal((2, 5003)).astype("float32"), 1)


def test_halves_are_added_up_in_float32():
    x = RNG.uniform(0.5, 1, (3, 300)).astype("float16")
    compare(x, 1, bound=1e-3)


def test_what_stands_behind_an_infinity_or_a_nan_does_not_reach_what_is_before_it():
    x = RNG.standard_normal((4, 40)).astype("float32")
    x[0, 20], x[1, 20], x[2, 3], x[2, 30] = np.inf, np.nan, np.inf, -np.inf
    model = tvm_stitch.compile(cumulative_sum(x.shape, 1, "float32"), threads=1)
    with np.errstate(invalid="ignore"):  # infinities of both signs
        ref = np.cumsum(x.astype("f8"), 1)
    got = model.run({"x": x})["y"]
    np.testing.assert_allclose(got, ref, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extent", [5, 100])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_products(extent, axis):
    x = RNG.uniform(0.9, 1.1, (extent, 3)).astype("float32")
    mod = rm.module(lambda _, x: relax.op.cumprod(x, axis), x)
    (got,) = tvm_stitch.compile(mod, threads=1).run({"x0": x}).values()
    np.testing.assert_allclose(got, np.cumprod(x.astype("f8"), axis), rtol=1e-5)


def test_a_position_of_ids_stays_in_the_kernel_of_its_readers():
    """RoBERTa counts the ids that are no padding: three kernels, when scans were loops."""
    ids = np.arange(24, dtype="int64").reshape(2, 12)

    def emit(b, ids):
        seen = b.emit(relax.op.astype(relax.op.not_equal(ids, relax.const(1, "int64")), "int64"))
        place = b.emit(relax.op.multiply(relax.op.cumsum(seen, 1), seen))
        return relax.op.add(place, relax.const(1, "int64"))

    report = tvm_stitch.explain(rm.module(emit, ids), threads=2)
    assert (report.kernels, report.fallbacks) == (1, 0)


def test_bools_and_tensors_without_elements_are_left():
    for x in (np.zeros((0, 3), "float32"), np.ones((2, 3), bool)):
        mod = rm.module(lambda _, x: relax.op.cumsum(x, 0), x)
        assert "call_tir" not in BlockScans()(mod).script()
