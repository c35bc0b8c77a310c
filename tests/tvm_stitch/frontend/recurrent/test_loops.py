"""Scan and Loop of known count: one kernel where a step is one, else written out."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_stitch

WIDTH = 24


def info(name: str, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "loops", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def cell() -> list[onnx.NodeProto]:
    return [
        helper.make_node("MatMul", ["h", "w"], ["product"]),
        helper.make_node("Add", ["x", "product"], ["total"]),
        helper.make_node("Tanh", ["total"], ["next"]),
        helper.make_node("Identity", ["next"], ["y"]),
    ]


def weights(rng):
    square = (rng.standard_normal((WIDTH, WIDTH)) / 5).astype(np.float32)
    return numpy_helper.from_array(square, "w")


def scan(rng, steps: int, axis: int = 0, back: bool = False, out_axis: int = 0):
    shape, out = [3, WIDTH], [3, WIDTH]
    shape.insert(axis, steps)
    out.insert(out_axis, steps)
    body = helper.make_graph(
        cell(), "body", [info("h", [3, WIDTH]), info("x", [3, WIDTH])],
        [info("next", [3, WIDTH]), info("y", [3, WIDTH])],
    )  # fmt: skip
    node = helper.make_node(
        "Scan", ["h0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1,
        scan_input_axes=[axis], scan_input_directions=[int(back)],
        scan_output_axes=[out_axis], scan_output_directions=[int(back)],
    )  # fmt: skip
    made = model(
        [node], [info("h0", [3, WIDTH]), info("xs", shape)],
        [info("last", [3, WIDTH]), info("ys", out)], [weights(rng)],
    )  # fmt: skip
    feeds = {"h0": (3, WIDTH), "xs": tuple(shape)}
    return made, {n: rng.standard_normal(s).astype(np.float32) for n, s in feeds.items()}


def loop(rng, steps: int):
    """A step reads its number: x[number], of a table."""
    nodes = [
        helper.make_node("Gather", ["table", "number"], ["x"], axis=0),
        *cell(),
        helper.make_node("Identity", ["condition"], ["again"]),
    ]
    body = helper.make_graph(
        nodes, "body",
        [info("number", [], TensorProto.INT64), info("condition", [], TensorProto.BOOL),
         info("h", [3, WIDTH])],
        [info("again", [], TensorProto.BOOL), info("next", [3, WIDTH]), info("y", [3, WIDTH])],
    )  # fmt: skip
    node = helper.make_node("Loop", ["count", "", "h0"], ["last", "ys"], body=body)
    count = numpy_helper.from_array(np.array(steps, np.int64), "count")
    made = model(
        [node], [info("h0", [3, WIDTH]), info("table", [steps + 2, 3, WIDTH])],
        [info("last", [3, WIDTH]), info("ys", [steps, 3, WIDTH])], [weights(rng), count],
    )  # fmt: skip
    feeds = {"h0": (3, WIDTH), "table": (steps + 2, 3, WIDTH)}
    return made, {n: rng.standard_normal(s).astype(np.float32) for n, s in feeds.items()}


def compared(made, feeds, **keywords) -> tvm_stitch.Report:
    session = onnxruntime.InferenceSession(made.SerializeToString())
    compiled = tvm_stitch.compile(made, **keywords)
    got = compiled.run(feeds)
    for one, other in zip(got.values(), session.run(None, feeds), strict=True):
        error = np.abs(one.astype(np.float64) - other)
        assert (error <= 1e-5 * (np.abs(other) + np.abs(other).max())).all()
    return compiled.report


@pytest.mark.long(every=2)
@pytest.mark.parametrize("axes", [(0, 0), (1, 2), (2, 1)])
@pytest.mark.parametrize("back", [False, True])
def test_a_scan_is_one_kernel_whatever_its_steps(axes, back):
    rng = np.random.default_rng()
    several = [compared(*scan(rng, n, axes[0], back, axes[1])).kernels for n in (5, 40)]
    assert several[0] == several[1] <= 3


def test_a_loop_is_one_kernel_whatever_its_steps():
    rng = np.random.default_rng()
    assert compared(*loop(rng, 6)).kernels == compared(*loop(rng, 60)).kernels == 1


@pytest.mark.long(every=2)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps_are_written_out(steps):
    rng = np.random.default_rng()
    compared(*scan(rng, steps))
    compared(*loop(rng, steps))


def test_a_loop_longer_than_what_is_written_out():
    compared(*loop(np.random.default_rng(), 3000))


def test_steps_that_sort_are_written_out_and_said_so():
    rng = np.random.default_rng()
    nodes = [
        helper.make_node("TopK", ["h", "k"], ["next", "places"], axis=1),
        helper.make_node("Add", ["next", "x"], ["y"]),
    ]
    body = helper.make_graph(
        nodes, "body", [info("h", [3, WIDTH]), info("x", [3, WIDTH])],
        [info("y", [3, WIDTH])],
    )  # fmt: skip
    node = helper.make_node("Scan", ["h0", "xs"], ["last"], body=body, num_scan_inputs=1)
    made = model(
        [node], [info("h0", [3, WIDTH]), info("xs", [5, 3, WIDTH])], [info("last", [3, WIDTH])],
        [numpy_helper.from_array(np.array([WIDTH]), "k")],
    )  # fmt: skip
    feeds = {"h0": (3, WIDTH), "xs": (5, 3, WIDTH)}
    report = compared(
        made, {n: rng.standard_normal(s).astype(np.float32) for n, s in feeds.items()}
    )
    assert report.unrolled
    assert "loop written out" in str(report)


def test_inputs_of_different_lengths_are_refused():
    body = helper.make_graph(
        [helper.make_node("Add", ["x", "z"], ["y"])],
        "body",
        [info("x", [WIDTH]), info("z", [WIDTH])],
        [info("y", [WIDTH])],
    )
    node = helper.make_node("Scan", ["xs", "zs"], ["ys"], body=body, num_scan_inputs=2)
    made = model(
        [node],
        [info("xs", [6, WIDTH]), info("zs", [5, WIDTH])],
        [onnx.ValueInfoProto(name="ys")],
    )
    with pytest.raises(tvm_stitch.StitchError, match="do not fit") as caught:
        tvm_stitch.compile(made)
    assert "\n" not in str(caught.value)


def test_more_directions_than_outputs_are_left():
    made, feeds = scan(np.random.default_rng(), 5)
    (node,) = made.graph.node
    (turned,) = (a for a in node.attribute if a.name == "scan_output_directions")
    turned.ints.extend([1, 0, 1])
    got = tvm_stitch.compile(made).run(feeds)
    del turned.ints[1:]
    for name, array in tvm_stitch.compile(made).run(feeds).items():
        np.testing.assert_array_equal(got[name], array)
