"""Weights are padded at compile time as far as the file may grow."""

from __future__ import annotations

import numpy as np
import pytest
import stitch_case  # noqa: F401  (finds the zoo)
from tvm import relax

from tvm_stitch.frontend.fold_weights import fold_weights


def padded_product(columns: int, extra: int) -> relax.Function:
    """Return x @ pad(w), w the one weight."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 512), "float32"))
    w = relax.Var("w", relax.TensorType((512, columns), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            wide = builder.emit(relax.op.nn.pad(w, [0, 0, 0, extra]))
            y = builder.emit_output(builder.emit(relax.op.matmul(x, wide)))
        builder.emit_func_output(y)
    return builder.finalize()["main"]


@pytest.mark.parametrize(
    ("columns", "extra", "folds"), [(4096, 200, True), (4096, 4096, False), (16, 16, True)]
)
def test_a_padded_weight_is_folded_unless_it_grows_beyond_the_budget(columns, extra, folds):
    weight = np.random.default_rng(0).standard_normal((512, columns)).astype("float32")
    _, (kept,) = fold_weights(padded_product(columns, extra), 1, [weight])
    expected = np.pad(weight, ((0, 0), (0, extra))) if folds else weight
    np.testing.assert_array_equal(kept, expected)


@pytest.mark.parametrize(("growth_bytes", "folds"), [(0, False), (4 * 512 * 2048, True)])
def test_a_weight_times_a_constant_is_folded_if_it_may_grow_so(growth_bytes, folds):
    weight, factor = (
        np.random.default_rng(seed).standard_normal(shape).astype("float32")
        for seed, shape in enumerate([(512, 256), (256, 2048)])
    )
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 512), "float32"))
    w = relax.Var("w", relax.TensorType(weight.shape, "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            wide = builder.emit(relax.op.matmul(w, relax.const(factor)))
            y = builder.emit_output(builder.emit(relax.op.matmul(x, wide)))
        builder.emit_func_output(y)
    main = builder.finalize()["main"]
    _, (kept,) = fold_weights(main, 1, [weight], growth_bytes=growth_bytes)
    if folds:
        np.testing.assert_allclose(kept, weight.astype("f8") @ factor, rtol=1e-4, atol=1e-3)
    else:
        np.testing.assert_array_equal(kept, weight)
