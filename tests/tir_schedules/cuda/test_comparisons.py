"""A float compared with itself is NaN or not; to TVM's simplifier floats are reals."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax
from tvm.ir import IRModule

from support.cuda import whole
from tvm_stitch.build import Request, lower


def compared(op: str, made: bool, dtype: str = "float32") -> IRModule:
    """Return a comparison of x, or of exp(x), which is made in the kernel, with itself."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((7, 33), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(relax.op.exp(x)) if made else x
            same = builder.emit(getattr(relax.op, op)(value, value))
            out = builder.emit_output(relax.op.astype(same, "float32"))
        builder.emit_func_output(out)
    return builder.get()


def special() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(7, 33)).astype("float32")
    x[2, 3], x[4, 5] = np.nan, np.inf
    return x


@pytest.mark.long(every=2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("op", ["equal", "not_equal"])
def test_of_other_types(op, dtype):
    x = special().astype(dtype)
    lowered = lower(Request(compared(op, True, dtype), target="cuda:sm_90"))
    (got,) = whole.run(lowered, [x], seed=0)
    assert np.array_equal(got, np.isnan(x) == (op == "not_equal"))


@pytest.mark.long(every=3)
@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("op", ["equal", "not_equal", "less_equal", "greater_equal"])
def test_a_value_is_compared_with_itself(op, made):
    x = special()
    lowered = lower(Request(compared(op, made), target="cuda:sm_90"))
    (got,) = whole.run(lowered, [x], seed=0)
    assert np.array_equal(got, np.isnan(x) == (op == "not_equal"))
