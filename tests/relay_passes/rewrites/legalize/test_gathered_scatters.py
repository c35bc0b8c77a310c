"""Scatters against a loop over the updates: windows, tables, few updates anywhere, and many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from tvm import relax

import tvm_stitch
from relay_passes.policy import POLICY
from relay_passes.rewrites.legalize import gathered_scatters
from relay_passes.rewrites.legalize.gathered_scatters import box_of
from relay_passes.rewrites.legalize.named_legalize import NamedLegalize
from support.models import relax_models as rm

RNG = np.random.default_rng()
COMBINES = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@dataclass(frozen=True)
class Scatter:
    kind: str
    data: np.ndarray
    indices: np.ndarray
    updates: np.ndarray
    attributes: dict = field(default_factory=dict)

    def model(self, known: bool) -> onnx.ModelProto:
        def value(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            return helper.make_tensor_value_info(name, kind, array.shape)

        node = helper.make_node(self.kind, ["data", "indices", "updates"], ["y"], **self.attributes)
        ins = [value("data", self.data), value("updates", self.updates)]
        ins += [] if known else [value("indices", self.indices)]
        constants = [numpy_helper.from_array(self.indices, "indices")] if known else []
        graph = helper.make_graph([node], "scatter", ins, [value("y", self.data)], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

    def expected(self) -> np.ndarray:
        made = self.data.astype("f8") if self.data.dtype.kind == "f" else self.data.copy()
        combine = COMBINES[self.attributes.get("reduction", "none")]
        nd = self.kind == "ScatterND"
        for at in np.ndindex(self.indices.shape[:-1] if nd else self.indices.shape):
            place = list(at)
            if nd:
                place = list(self.indices[at])
            else:
                place[self.attributes["axis"]] = self.indices[at]
            made[tuple(place)] = combine(made[tuple(place)], self.updates[at])
        return made

    def check(self, known: bool) -> tvm_stitch.Model:
        model = tvm_stitch.compile(self.model(known), threads=2)
        inputs = {"data": self.data, "updates": self.updates}
        got = model.run(inputs if known else inputs | {"indices": self.indices})["y"]
        assert got.dtype == self.data.dtype
        np.testing.assert_allclose(got, self.expected(), rtol=1e-5, atol=1e-5)
        return model


def numbers(shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    return (RNG.standard_normal(shape) * 3).astype(dtype)


def anywhere(
    shape: Sequence[int], rows: Sequence[int], columns: int, dtype: str = "float32", **attributes
) -> Scatter:
    """Return a scatter to points of the first axes; indices count from the end as often as not."""
    places = [RNG.integers(-extent, extent, rows) for extent in shape[:columns]]
    updates = numbers((*rows, *shape[columns:]), dtype)
    indices = np.stack(places, -1).astype("int64")
    return Scatter("ScatterND", numbers(shape, dtype), indices, updates, attributes)


def boxed(shape: Sequence[int], slices: Sequence[slice], flat: bool = False) -> Scatter:
    """Return what exporters write for `data[slices] = updates`."""
    along = [np.arange(extent)[s] for extent, s in zip(shape, slices, strict=False)]
    indices = np.stack(np.meshgrid(*along, indexing="ij"), -1).astype("int64")
    if flat:
        indices = indices.reshape(-1, len(slices))
    updates = numbers((*indices.shape[:-1], *shape[len(slices) :]))
    return Scatter("ScatterND", numbers(shape), indices, updates)


def of_elements(
    shape: Sequence[int], counts: Sequence[int], axis: int, dtype: str = "float32", **attributes
) -> Scatter:
    indices = RNG.integers(-shape[axis], shape[axis], counts).astype("int64")
    attributes = {"axis": axis, **attributes}
    return Scatter(
        "ScatterElements", numbers(shape, dtype), indices, numbers(counts, dtype), attributes
    )


@settings(max_examples=6, deadline=None)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    rows=st.lists(st.integers(1, 5), max_size=2),
    dtype=st.sampled_from(["float32", "float64", "int32", "int64"]),
    reduction=st.sampled_from(list(COMBINES)),
    known=st.booleans(),
    data=st.data(),
)
def test_points_of_any_axes(shape, rows, dtype, reduction, known, data):
    columns = data.draw(st.integers(1, len(shape)))
    anywhere(shape, rows, columns, dtype, reduction=reduction).check(known)


@settings(max_examples=6, deadline=None)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    dtype=st.sampled_from(["float32", "float64", "int32", "int64"]),
    reduction=st.sampled_from(list(COMBINES)),
    known=st.booleans(),
    data=st.data(),
)
def test_elements_along_any_axis(shape, dtype, reduction, known, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    counts = [data.draw(st.integers(1, extent)) for extent in shape]
    counts[axis] = data.draw(st.integers(1, 11))
    of_elements(shape, counts, axis, dtype, reduction=reduction).check(known)


@pytest.mark.parametrize("flat", [False, True], ids=["rows", "flat"])
@pytest.mark.parametrize(
    ("shape", "slices"),
    [
        ((5, 12, 4), (slice(None), slice(3, 7))),
        ((2, 6, 3), (slice(None), slice(None), slice(1, 2))),
        ((4, 9), (slice(1, 4, 2), slice(0, 9, 4))),
        ((3, 33, 17), (slice(2, 3),)),
        ((2, 5), (slice(None), slice(None))),
        ((9, 40), (slice(1, 8), slice(3, 30))),
    ],
)
def test_a_slice_that_is_assigned_is_a_window(shape, slices, flat):
    model = boxed(shape, slices, flat).check(known=True)
    assert model.report.fallbacks == 0


def test_a_box_is_recognised_by_its_points_and_their_order():
    box = np.full((4, 6), -1)
    box[1:4:2, 2:5] = np.arange(6).reshape(2, 3)
    found = box_of(box)
    assert (found.starts, found.steps, found.counts) == ((1, 2), (2, 1), (2, 3))
    turned, holed, uneven = box.copy(), box.copy(), np.full((8, 1), -1)
    turned[1:4:2, 2:5] = np.arange(6).reshape(3, 2).T
    holed[1, 3] = -1
    uneven[[0, 1, 3], 0] = np.arange(3)
    assert [box_of(each) for each in (turned, holed, uneven)] == [None] * 3


def test_the_last_of_two_updates_of_one_point_stays():
    indices = np.array([[3], [1], [3], [-5]], "int64")
    scatter = Scatter("ScatterND", numbers((8, 20)), indices, numbers((4, 20)))
    for known in (True, False):
        assert scatter.check(known).report.fallbacks == 0


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_several_updates_of_a_known_point_are_combined(reduction):
    """As windows that overlap are folded into an image."""
    rows = np.add.outer(np.arange(9), np.arange(4)).astype("int64")[..., None]
    scatter = Scatter(
        "ScatterND", numbers((12, 5)), rows, numbers((9, 4, 5)), {"reduction": reduction}
    )
    assert scatter.check(known=True).report.fallbacks == 0


def test_many_updates_of_one_known_point_make_no_table_of_all_points():
    """Of 4,096 points and 3,000 updates of the first the table would have 12 million places."""
    indices = np.zeros((3000, 1), "int64")
    scatter = Scatter(
        "ScatterND", numbers((4096,)), indices, numbers((3000,)), {"reduction": "add"}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathered_scatters, "updates_of", None)
        model = tvm_stitch.compile(scatter.model(known=True), threads=1)
    assert model.report.fallbacks == 1


def test_what_no_update_reaches_keeps_its_nan_and_updates_of_other_points_do_not_spread():
    data = numbers((6, 5))
    data[0, 2], data[4, 1] = np.nan, np.inf
    updates = numbers((2, 5))
    updates[1] = np.nan, np.inf, -np.inf, 0, 1
    for reduction in ("none", "add", "mul"):
        indices = np.array([[1], [3]], "int64")
        scatter = Scatter("ScatterND", data, indices, updates, {"reduction": reduction})
        for known in (True, False):
            scatter.check(known)


def test_few_updates_of_a_large_tensor_and_many_of_a_small_one_are_no_loops():
    large = anywhere((300, 130), (POLICY.gathers.few,), 1).check(known=False)
    small = anywhere((48,), (48,), 1).check(known=False)
    beside = of_elements((1, 8, 16), (1, 1, 16), -2).check(known=False)
    assert [model.report.fallbacks for model in (large, small, beside)] == [0, 0, 0]


@pytest.mark.parametrize("reduction", ["add", "min", "max"])
def test_code_grows_by_as_much_with_each_update_of_a_place(reduction):
    def length(count):
        def emit(_b, data, updates):
            rows = relax.const(np.zeros((count, 1), "int64"), "int64")
            return relax.op.scatter_nd(data, rows, updates, reduction)

        given = rm.module(emit, numbers((2, 3)), numbers((count, 3)))
        return len(NamedLegalize()(given).script())

    few, some, most = map(length, (3, 6, 9))
    assert some > few and most - some < 1.2 * (some - few)


def test_many_updates_of_one_place_are_taken_in_turn():
    for reduction in ("add", "max"):
        indices = np.zeros((POLICY.gathers.of_a_place, 1), "int64")
        data, updates = numbers((1, 5)), numbers((len(indices), 5))
        model = Scatter("ScatterND", data, indices, updates, {"reduction": reduction}).check(True)
        assert (model.report.kernels, model.report.fallbacks) == (1, 0)


def test_many_updates_of_a_large_tensor_stay_a_loop():
    rows = POLICY.gathers.compared // 2048 + 1
    assert anywhere((2048,), (rows,), 1).check(known=False).report.fallbacks == 1


def test_indices_that_a_graph_computes_of_constants_are_known():
    """Exporters count negative indices up by the extent, and put columns side by side."""
    rows = np.array([[-1], [2]], "int64")

    def emit(b, data, updates):
        given = relax.const(rows, "int64")
        negative = b.emit(relax.op.less(given, relax.const(0, "int64")))
        up = b.emit(relax.op.add(given, relax.const(4, "int64")))
        column = b.emit(relax.op.where(negative, up, given))
        return relax.op.scatter_nd(data, column, updates, "max")

    data, updates = numbers((4, 9)), numbers((2, 9))
    model = tvm_stitch.compile(rm.module(emit, data, updates), threads=1)
    expected = data.copy()
    expected[[3, 2]] = np.maximum(expected[[3, 2]], updates)
    (got,) = model.run({"x0": data, "x1": updates}).values()
    np.testing.assert_array_equal(got, expected)
    assert model.report.fallbacks == 0
