"""Cases that check_all.py found wrong and that no smaller test shows: by their seeds."""

import os
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_stitch
from support import ROOT
from support.blocks.case import wrong
from support.blocks.reducer import whole
from support.decisions import case
from support.onnx_ops.chain import random_chain
from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model


@pytest.mark.long(every=2)
@pytest.mark.parametrize("seed", [3144514762, 1407557922])
def test_a_kept_product_has_the_same_bits_on_any_number_of_threads(seed):
    """A convolution of one tap and channel is no sum: its product is kept, then read by a sum.

    LLVM would make one multiply-add of the two in loops where it forwards the one to the other:
    with a tile an image, some elements had other bits than with one tile for all. The way of these
    networks runs them on 1 and 8 threads.
    """
    chosen = whole(seed)
    assert wrong(chosen.graph(), chosen.way) == []


def test_halves_may_be_added_to_a_mask_in_float32():
    """A row that -6e4 hides whole: uniform in float16, the softmax of the scores in float32."""
    chosen = whole(3717197387)
    assert wrong(chosen.graph(), chosen.way) == []


def test_lanes_that_are_done_twice_do_not_read_what_they_have_made():
    """A residual sum behind a product, 197 lanes: TVM wrote it over the operand that it reads last.

    The last register of lanes reaches back into the one before, whose sums it then added to again.
    """
    found, _ = case.wrong(2532421049)
    assert found == []


@pytest.mark.long
def test_a_check_of_operands_may_store_past_the_caches():
    """Random decisions had it do so; the code for that was imported for the usual way alone.

    In a process of its own: it ended at the model's load.
    """
    code = "from support.decisions import case; print(case.wrong(2078042114)[0])"
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests/lib", ROOT / "scripts")))
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert (told.returncode, told.stdout.strip()) == (0, "[]"), told.stderr


@pytest.mark.long
def test_what_two_threads_run_is_legal():
    """Two threads shared out a weight's panels, of which a product beside was read across.

    Legality refused it there and not on one thread: TVM's rule ran the kernel, with other bits.
    """
    chosen = whole(4245911791)
    assert wrong(chosen.graph(), chosen.way) == []


@pytest.mark.long(every=2)
@pytest.mark.parametrize("seed", [3379964142, 530405333])
def test_default_decisions_are_legal(seed):
    """Lines ahead of a gathered operand were asked for; windows without lanes lost their sums.

    Where default decisions are illegal, any test fails (support.illegal_defaults).
    """
    found, _ = case.wrong(seed)
    assert found == []


@pytest.mark.long
def test_positions_told_apart_are_inside_the_sum_of_a_lone_nest():
    """The lines of minimal filtering were computed in a small product, whose terms went in lanes.

    Legality refused it, and TVM's rule ran the kernel.
    """
    chosen = whole(3368263115)
    assert wrong(chosen.graph(), chosen.way) == []


@pytest.mark.long(every=5)
@pytest.mark.parametrize("rows", [1, 2])  # of one the rest of a line is known to be 0
@pytest.mark.parametrize("op", ["Clip", "Less", "Sub", "Max"])
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_unsigned_zeros_of_a_mask_are_compared_with_literals(op, dtype, rows):
    """Where a mask is known to be 0, TVM's simplifier subtracted 1 of it and ended."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = TensorProto.BOOL if op == "Less" else kind
    one = numpy_helper.from_array(np.array(1, dtype), "one")
    nodes = [
        helper.make_node("Trilu", ["x"], ["t"], upper=0),
        helper.make_node(op, ["t", "one"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    inputs, outputs = [info("x", kind, [3, rows, 7])], [info("y", made, [3, rows, 7])]
    graph = helper.make_graph(nodes, "mask", inputs, outputs, [one])
    opsets = [helper.make_opsetid("", 18)]
    model = tvm_stitch.compile(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    x = np.random.default_rng(0).integers(0, 9, (3, rows, 7)).astype(dtype)
    lower = np.tril(x)
    want = {"Clip": np.maximum, "Max": np.maximum, "Less": np.less, "Sub": np.subtract}[op](
        lower, np.array(1, dtype)
    )
    np.testing.assert_array_equal(model.run({"x": x})["y"], want)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("op", ["Less", "GreaterOrEqual", "Equal", "And"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_a_condition_is_divided_by_what_may_be_negative(op, dtype):
    """TVM writes the remainder twice and binds it: its analyzer ended at a vector of bools."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 4, shape).astype("int32") for shape in ((5, 19), (19,)))
    by = rng.integers(1, 4, 19).astype(dtype)
    if not dtype.startswith("u"):
        by[::2] *= -1
    if op == "And":  # bools that are loaded
        a, b = a > 1, b > 1
    feeds = {"a": a, "b": b, "by": by}
    nodes = [
        helper.make_node(op, ["a", "b"], ["c"]),
        helper.make_node("Cast", ["c"], ["d"], to=kind),
        helper.make_node("Mod", ["d", "by"], ["y"]),
        helper.make_node("Cast", ["a"], ["e"], to=kind),
        helper.make_node("Mod", ["e", "by"], ["z"]),
    ]
    info = helper.make_tensor_value_info
    inputs = [
        info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in feeds.items()
    ]
    graph = helper.make_graph(nodes, "remainder", inputs, [info(n, kind, [5, 19]) for n in "yz"])
    opsets = [helper.make_opsetid("", 18)]
    model = tvm_stitch.compile(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    compare = {
        "Less": np.less, "GreaterOrEqual": np.greater_equal, "Equal": np.equal,
        "And": np.logical_and,
    }[op]  # fmt: skip
    got = model.run(feeds)
    np.testing.assert_array_equal(got["y"], compare(a, b).astype(dtype) % by)
    np.testing.assert_array_equal(got["z"], a.astype(dtype) % by)


def test_operands_of_divisions_are_hidden_once():
    """What gathers chose by a condition was written twice in each division of its positions."""
    chain = random_chain(1352229256)
    imported = import_model(chain.model)
    lowered, _ = pipeline.lower(imported.mod, targets.resolve("x86", 2), fusion="stitch", threads=2)
    assert 1 <= lowered.script().count("llvm.smax") <= 32
