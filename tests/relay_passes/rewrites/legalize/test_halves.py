"""Operators on float16 and bfloat16 that TVM's rules make something else of."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import parser
from tvm import relax, te

import tvm_stitch
from relay_passes.rewrites.legalize import legalize
from tvm_stitch.errors import StitchError

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def numbers(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(TYPES[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_batch_norm_by_moments_that_are_given(dtype):
    """TVM's rule makes float32 of it."""
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g ({dtype}[3,5,4] x, {dtype}[5] w, {dtype}[5] b, {dtype}[5] m, {dtype}[5] v)
        => ({dtype}[3,5,4] y) {{ y = BatchNormalization<epsilon=0.01>(x, w, b, m, v) }}""")
    given = {name: numbers(dtype, 5) for name in "wbm"}
    given |= {"x": numbers(dtype, 3, 5, 4), "v": np.abs(numbers(dtype, 5, 1)[:, 0])}
    got = tvm_stitch.compile(model).run(given)["y"]
    wide = {name: value.astype(np.float64) for name, value in given.items()}
    scale, shift, mean, variance = (wide[name][:, None] for name in "wbmv")
    want = (wide["x"] - mean) / np.sqrt(variance + 0.01) * scale + shift
    assert got.dtype == TYPES[dtype]
    assert np.all(np.abs(got - want) <= EPS[dtype] * (np.abs(want) + np.abs(want).max()))


@pytest.mark.parametrize("reduction", ["min", "max"])
@pytest.mark.parametrize("dtype", TYPES)
def test_the_extreme_of_what_is_scattered(dtype, reduction):
    """Of a bfloat16 that is bound to a variable TVM widened the bits."""
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g ({dtype}[4,5] x, int64[3,5] i, {dtype}[3,5] u) => ({dtype}[4,5] y)
        {{ y = ScatterElements<axis=0, reduction="{reduction}">(x, i, u) }}""")
    x, u = numbers(dtype, 4, 5), numbers(dtype, 3, 5)
    u[1, 2] = np.nan
    index = np.random.default_rng(1).integers(0, 4, (3, 5))
    want, function = x.astype(np.float32), np.minimum if reduction == "min" else np.maximum
    for at in np.ndindex(index.shape):
        place = index[at], at[1]
        want[place] = function(want[place], np.float32(u[at]))
    got = tvm_stitch.compile(model).run({"x": x, "i": index, "u": u})["y"]
    np.testing.assert_array_equal(got.astype(np.float32), want)


def test_a_rule_that_makes_another_type_is_refused(monkeypatch):
    def rule(builder, call):
        return builder.call_te(lambda x: te.compute(x.shape, lambda *i: x(*i) * 2.0), call.args[0])

    monkeypatch.setitem(legalize.LEGALIZATIONS, "relax.exp", rule)
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4,), "float16"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.exp(x))
        builder.emit_func_output(out)
    with pytest.raises(StitchError, match="kernel makes float32 of it, not float16"):
        tvm_stitch.compile(builder.get())
