"""Sequences of tensors: what is put in, taken out and counted, from either end."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from support.frontend.case import FLOAT, model, run_stock
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import import_model

X, Y, Z = np.random.default_rng(0).standard_normal((3, 4, 6)).astype("f4")
GIVEN = {"x": X, "y": Y, "z": Z}


def run(nodes, places, made=(FLOAT, None)):
    weights = {name: np.array(place) for name, place in places.items()}
    inputs = {name: (FLOAT, [4, 6]) for name in GIVEN}
    imported = import_model(model(nodes, inputs, {"out": made}, weights))
    (got,) = run_stock(imported, GIVEN)
    return got


def node(op, inputs, out, **attrs):
    return helper.make_node(op, inputs, [out], **attrs)


START = node("SequenceConstruct", ["x", "y"], "s")


@pytest.mark.parametrize("place", [-2, -1, 0, 1, 2, None])
@pytest.mark.parametrize("at", [-3, -1, 0, 1, 2])
def test_what_is_inserted_is_where_a_list_has_it(place, at):
    places = {"at": at} | ({} if place is None else {"p": place})
    inserted = node("SequenceInsert", ["s", "z", *(["p"] if place is not None else [])], "t")
    got = run([START, inserted, node("SequenceAt", ["t", "at"], "out")], places)
    items = [X, Y]
    items.insert(len(items) if place is None else place, Z)
    np.testing.assert_array_equal(got, items[at])


@pytest.mark.parametrize("place", [-2, 0, 1, None])
def test_what_is_erased_is_gone(place):
    erased = node("SequenceErase", ["s", *(["p"] if place is not None else [])], "t")
    nodes = [START, erased, node("SequenceAt", ["t", "at"], "out")]
    got = run(nodes, {"at": 0} | ({} if place is None else {"p": place}))
    np.testing.assert_array_equal(got, Y if place in (-2, 0) else X)


def test_items_are_counted():
    nodes = [node("SequenceEmpty", [], "e"), node("SequenceInsert", ["e", "x"], "s"),
             node("SequenceLength", ["s"], "out")]  # fmt: skip
    assert run(nodes, {}, (TensorProto.INT64, [])) == 1


@pytest.mark.parametrize(
    ("sizes", "attrs", "item", "want"),
    [
        pytest.param(None, {"axis": 1}, 2, X[:, 2:3], id="ones"),
        pytest.param(None, {"axis": 0, "keepdims": 0}, -1, X[3], id="without-the-axis"),
        pytest.param(4, {"axis": -1}, 1, X[:, 4:], id="parts-of-four"),
        pytest.param([1, 3], {}, 1, X[1:], id="sizes"),
    ],
)
def test_parts_of_a_tensor_are_items(sizes, attrs, item, want):
    split = node("SplitToSequence", ["x", *(["n"] if sizes is not None else [])], "s", **attrs)
    places = {"at": item} | ({} if sizes is None else {"n": sizes})
    got = run([split, node("SequenceAt", ["s", "at"], "out")], places)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("new", "want"), [(0, np.concatenate([X, Y])), (1, np.stack([X, Y]))])
def test_items_are_joined(new, want):
    got = run([START, node("ConcatFromSequence", ["s"], "out", axis=0, new_axis=new)], {})
    np.testing.assert_array_equal(got, want)


def test_more_parts_than_are_written_out_are_told_in_one_line():
    nodes = [node("SplitToSequence", ["x"], "s"), node("SequenceAt", ["s", "at"], "out")]
    made = model(nodes, {"x": (FLOAT, [1 << 20])}, {"out": (FLOAT, None)}, {"at": np.array(0)})
    with pytest.raises(StitchError, match="1048576 parts are more than 4096"):
        import_model(made)


def test_a_place_outside_is_told_in_one_line():
    with pytest.raises(StitchError, match="place 5 is outside a sequence of 2"):
        run([START, node("SequenceAt", ["s", "at"], "out")], {"at": 5})
