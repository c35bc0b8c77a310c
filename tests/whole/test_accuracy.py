"""Digits that a careless kernel loses: long sums, small arguments, a value rounded twice."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

import tvm_stitch

BOUND = 1e-5


def model_of(nodes, inputs, outputs, **constants) -> ModelProto:
    """Return a model; `inputs` and `outputs` give each value's dtype and shape."""
    infos = [
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(d)), s)
            for n, (d, s) in side.items()
        ]
        for side in (inputs, outputs)
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", *infos, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.long(every=3)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1 << 20,), (0,)),
        ((1_000_003,), (0,)),
        ((1 << 15, 64), (0,)),
        ((1 << 19, 3), (0,)),
        ((512, 3, 33, 31), (0, 2, 3)),
        ((2, 300_007), (1,)),
        ((64, 2, 4096), (0, 2)),
        ((300, 70, 40), (0, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_sum_of_many_equal_terms_keeps_its_digits(shape, axes, threads):
    # One running sum of a million would be off by 1.5e-4 and more: its roundings go one way.
    left = [1 if n in axes else extent for n, extent in enumerate(shape)]
    model = model_of(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)],
        {"x": ("f4", shape)},
        {"y": ("f4", left)},
        axes=np.array(axes),
    )
    x = np.full(shape, 0.1, "f4")
    got = tvm_stitch.compile(model, threads=threads).run({"x": x})["y"]
    np.testing.assert_allclose(got, x.astype("f8").sum(axes, keepdims=True), BOUND)


FUNCTIONS = {
    "Tanh": np.tanh,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Atanh": np.arctanh,
    "Asinh": np.arcsinh,
    "Softplus": lambda x: np.logaddexp(0, x),
}


@pytest.mark.long(every=3)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_function_is_within_4_ulp_at_small_and_large_arguments(op, dtype):
    info = np.finfo(dtype)
    rng = np.random.default_rng(0)
    size = 10.0 ** rng.uniform(np.log10(info.tiny), 3, 999)
    x = (size * rng.choice([-1, 1], 999)).astype(dtype)
    x[:5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    model = model_of(
        [helper.make_node(op, ["x"], ["y"])], {"x": (dtype, [999])}, {"y": (dtype, [999])}
    )
    got = tvm_stitch.compile(model).run({"x": x})["y"]
    with np.errstate(all="ignore"):
        want = FUNCTIONS[op](x.astype("longdouble"))
        near = np.abs(got - want) <= 4 * info.eps * np.abs(want) + info.smallest_subnormal
        assert (near | (got == want.astype(dtype)) | (np.isnan(got) & np.isnan(want))).all()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_zero_over_zero_behind_a_pad_is_nan(dtype):
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"]),
        helper.make_node("Div", ["p", "y"], ["q"]),
        helper.make_node("Mul", ["p", "z"], ["m"]),
    ]
    shapes = {"x": (dtype, [2, 3]), "y": (dtype, [1, 1]), "z": (dtype, [1, 5])}
    model = model_of(
        nodes, shapes, {"q": (dtype, [4, 5]), "m": (dtype, [4, 5])}, pads=np.array([1, 1, 1, 1])
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3)).astype(dtype)
    z = np.array([[1, np.inf, -np.inf, np.nan, 2]], dtype)
    got = tvm_stitch.compile(model).run({"x": x, "y": np.zeros((1, 1), dtype), "z": z})
    padded = np.pad(x, 1)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got["q"], padded / np.zeros((1, 1), dtype))
        np.testing.assert_array_equal(got["m"], padded * z)


def test_an_output_in_half_precision_does_not_differ_from_itself():
    # relu(v) is stored rounded, v is not stored: their difference must not see the rounding.
    nodes = [
        helper.make_node("Softmax", ["x"], ["v"]),
        helper.make_node("Relu", ["v"], ["r"]),
        helper.make_node("Sub", ["r", "v"], ["d"]),
    ]
    shape = ("f2", [7, 129])
    model = model_of(nodes, {"x": shape}, {"r": shape, "d": shape})
    x = np.random.default_rng(0).standard_normal((7, 129)).astype("f2")
    got = tvm_stitch.compile(model).run({"x": x})
    assert got["r"].all() and not got["d"].any()
