"""Products are rounded before sums, as operators one by one round them: p + -p is 0."""

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

import tvm_stitch


def assert_nothing(
    nodes: list[NodeProto], dtype: str, shape: tuple[int, ...], sign: float = 1.0
) -> None:
    """Run the nodes on normal `x` and `y`, and `z`, their product times a sign, rounded.

    What they name `nothing` must be 0.
    """
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "negated",
        [helper.make_tensor_value_info(name, kind, shape) for name in "xyz"],
        [helper.make_tensor_value_info("nothing", kind, shape)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(proto)
    rng = np.random.default_rng()
    inputs = {name: np.asarray(rng.normal(size=shape), dtype) for name in "xy"}
    inputs["z"] = np.asarray(sign * inputs["x"] * inputs["y"], dtype)
    results = tvm_stitch.compile(proto, threads=1).run(inputs)
    np.testing.assert_array_equal(results["nothing"], np.zeros(shape, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("negated_first", [True, False])
@pytest.mark.parametrize("shape", [(), (7,), (5, 67)])
def test_a_product_and_its_negation_add_up_to_nothing(dtype, negated_first, shape):
    """Of the two, a multiply-add would leave what the rounding of the other took away."""
    order = ["minus", "p"] if negated_first else ["p", "minus"]
    nodes = [
        helper.make_node("Mul", ["x", "y"], ["xy"]),
        helper.make_node("Mul", ["xy", "x"], ["p"]),
        helper.make_node("Neg", ["p"], ["minus"]),
        helper.make_node("Add", order, ["nothing"]),
    ]
    assert_nothing(nodes, dtype, shape)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("factors", [["minus", "y"], ["y", "minus"]])
def test_products_of_a_factor_and_its_negation_add_up_to_nothing(dtype, factors):
    """x * y + -x * y: neither product is the other's, negated."""
    nodes = [
        helper.make_node("Neg", ["x"], ["minus"]),
        helper.make_node("Mul", ["x", "y"], ["p"]),
        helper.make_node("Mul", factors, ["q"]),
        helper.make_node("Add", ["p", "q"], ["nothing"]),
    ]
    assert_nothing(nodes, dtype, (5, 67))


@pytest.mark.parametrize("factors", [["p", "by"], ["by", "p"]])
def test_a_product_times_minus_one_is_its_negation(factors):
    by = helper.make_tensor("by", onnx.TensorProto.FLOAT, [], [-1.0])
    nodes = [
        helper.make_node("Constant", [], ["by"], value=by),
        helper.make_node("Mul", ["x", "y"], ["xy"]),
        helper.make_node("Mul", ["xy", "x"], ["p"]),
        helper.make_node("Mul", factors, ["minus"]),
        helper.make_node("Add", ["minus", "p"], ["nothing"]),
    ]
    assert_nothing(nodes, "float32", ())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("operator", ["Add", "Sub"])
@pytest.mark.parametrize("product_first", [True, False])
@pytest.mark.parametrize("shape", [(), (7,), (5, 67), (3, 4, 1000)])
def test_a_product_is_rounded_before_it_meets_what_another_kernel_has_made(
    dtype, operator, product_first, shape
):
    """x * y beside its rounded value, which is an input: a multiply-add tells them apart."""
    order = ["p", "z"] if product_first else ["z", "p"]
    nodes = [
        helper.make_node("Mul", ["x", "y"], ["p"]),
        helper.make_node(operator, order, ["nothing"]),
    ]
    assert_nothing(nodes, dtype, shape, -1.0 if operator == "Add" else 1.0)
