"""NaN, infinities, signed zeros and numbers near the limits come out as ONNX Runtime gives them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import onnxruntime
import pytest
import zoo

from support.kernels import stitch_case as sc

NAN, INF = math.nan, math.inf
LARGEST = float(np.finfo(np.float32).max)
# One kind a row: what stands in it, in which of its columns.
ROWS = {
    "one-nan": [(3, NAN)],
    "first-nan": [(0, NAN)],
    "last-nan": [(-1, NAN)],
    "one-inf": [(2, INF)],
    "one-minus-inf": [(4, -INF)],
    "both-infinities": [(1, INF), (5, -INF)],
    "nan-and-inf": [(1, INF), (6, NAN)],
    "all-minus-inf": [(slice(None), -INF)],
    "all-inf": [(slice(None), INF)],
    "all-but-one-minus-inf": [(slice(1, None), -INF)],
    "zeros-of-both-signs": [(slice(None), 0.0), (slice(0, None, 2), -0.0)],
    "subnormals": [(0, 1e-40), (3, -1e-41)],
    "exp-overflows": [(2, 88.8), (3, 104.0)],
    "exp-underflows": [(slice(None), -104.0), (0, -87.5)],
    "equal": [(slice(None), 2.5)],
}
CLOSE = 1e-5
SINGLE = 1e-4  # ONNX Runtime computes in f32 too

CASES = [
    pytest.param(name, options, id="-".join([name, *(f"{k}={v}" for k, v in options.items())]))
    for name in sc.SUBGRAPHS
    for options in sc.variants(name)
]


def special_rows(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return normal numbers in which each row along the last axis holds one kind of special."""
    array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    rows = array.reshape(-1, shape[-1])
    for number in range(len(rows)):
        kind = (
            list(ROWS)[number % (len(ROWS) + 1)] if number % (len(ROWS) + 1) < len(ROWS) else None
        )
        for place, value in ROWS[kind] if kind else ():
            rows[number, place] = value
    return array


def onnx_runtime(model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def assert_same_kind(got: np.ndarray, expected: np.ndarray) -> None:
    """Assert equal NaN and infinities, and finite values as near as two f32 libraries are."""
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite])
    if finite.any():
        scale = np.abs(expected[finite]).max()
        np.testing.assert_allclose(got[finite], expected[finite], SINGLE, SINGLE * scale)


def _shape(name: str, options: dict) -> tuple[int, ...]:
    if name in ("groupnorm", "bn_relu_residual"):
        return (8, 16, 3, 7)
    return (64, 7, 24) if options.get("axis") in (0, 1) else (64, 24)


@pytest.mark.long(every=4)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_special_values_come_out_as_onnx_runtime_gives_them(name, options):
    case = sc.Case(name, _shape(name, options), options=options)
    model = case.model()
    inputs = zoo.random_inputs(model, 1)
    for key, array in inputs.items():
        if array.dtype == np.float32 and key in ("x", "gates_x"):
            inputs[key] = special_rows(array.shape)
    expected = onnx_runtime(model, inputs)
    got = sc.compiled(model).model.run(inputs)
    for output, reference in expected.items():
        assert_same_kind(got[output], reference)


@pytest.mark.long(every=5)
@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("columns", [1, 3, 17, 64, 127, 384])
@pytest.mark.parametrize("name", ["softmax", "layernorm_decomposed", "l2_normalize"])
def test_a_special_value_in_any_lane_reaches_its_row_alone(name, columns, value):
    # The other form has a Clip, which takes infinity to the largest number.
    options = {"form": "decomposed"} if name == "l2_normalize" else {}
    case = sc.Case(name, (columns + 1, columns), options=options)
    model = case.model()
    inputs = case.inputs(model, 1)
    for column in range(columns):
        inputs["x"][column, column] = value  # a row for each place; the last one has none
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = case.reference(inputs)
    got = sc.compiled(model).model.run(inputs)
    sc.assert_close(got, expected, CLOSE)
    assert np.isfinite(got["y"][-1]).all()


@pytest.mark.long(every=3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["softmax", "layernorm_decomposed", "bias_gelu", "rmsnorm"])
def test_special_values_in_half_precision(name, dtype):
    case = sc.Case(name, (64, 24), dtype)
    model = case.model()
    inputs = case.inputs(model, 1)
    special = special_rows((64, 24)).astype(inputs["x"].dtype)
    inputs["x"] = special
    expected = case.reference({**inputs, "x": special})
    got = sc.compiled(model).model.run(inputs)["y"].astype(np.float64)
    reference = expected["y"]
    finite = np.isfinite(reference)
    np.testing.assert_array_equal(got[~finite], reference[~finite])
    magnitude = np.abs(reference[finite])
    assert (np.abs(got[finite] - reference[finite]) <= sc.BOUND[dtype] * (magnitude + 1)).all()


def test_a_sum_that_overflows_is_infinite_and_one_that_does_not_is_not():
    case = sc.Case("row_and_column", (4, 64))
    model = case.model()
    inputs = {"x": np.full((4, 64), 50, np.float32), "y": np.ones((4, 64), np.float32)}
    inputs["y"][1, :2] = LARGEST
    inputs["y"][2, 0] = -LARGEST
    got = sc.compiled(model).model.run(inputs)["rows"]
    assert np.isposinf(got[1]) and np.isfinite(got[[0, 2, 3]]).all()


@pytest.mark.parametrize("fill", ["min", "-inf"])
def test_a_row_that_is_masked_out_is_what_onnx_runtime_gives(fill):
    case = sc.Case("masked_softmax", (3, 4, 24), options={"mask": "where", "fill": fill})
    model = case.model()
    inputs = zoo.random_inputs(model, 1)
    inputs["mask"][...] = True
    inputs["mask"][1] = False
    inputs["mask"][2, ..., 5:] = False
    expected = onnx_runtime(model, inputs)["y"]
    assert_same_kind(sc.compiled(model).model.run(inputs)["y"], expected)
    assert np.isnan(expected[1]).all() == (fill == "-inf")
