"""Weights are padded at compile time as far as the file may grow."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tvm_stitch.frontend.relax_graph.fold_weights import fold_weights


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


@pytest.mark.parametrize(("extra", "folds"), [(200, True), (4096, False)])
def test_a_padded_weight_is_folded_unless_it_grows_beyond_the_budget(extra, folds):
    weight = np.random.default_rng(0).standard_normal((512, 4096)).astype("float32")
    _, (kept,) = fold_weights(padded_product(4096, extra), 1, [weight], padding_share=0.05)
    expected = np.pad(weight, ((0, 0), (0, extra))) if folds else weight
    np.testing.assert_array_equal(kept, expected)


def products(*orders: tuple[int, ...] | None) -> relax.Function:
    """Return x @ w, or x @ w permuted so, summed over the orders."""
    builder = relax.BlockBuilder()
    x, w = (relax.Var(n, relax.TensorType((64, 64), "float32")) for n in ("x", "w"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            parts = []
            for order in orders:
                value = w if order is None else builder.emit(relax.op.permute_dims(w, order))
                value = builder.emit(relax.op.reshape(value, (64, 64)))
                parts.append(builder.emit(relax.op.matmul(x, value)))
            y = builder.emit_output(relax.op.add(parts[0], parts[-1]))
        builder.emit_func_output(y)
    return builder.finalize()["main"]


@pytest.mark.parametrize(
    ("orders", "transposed", "layouts"),
    [
        pytest.param([(1, 0)], True, 0, id="one"),
        pytest.param([(1, 0), (1, 0)], True, 0, id="twice-the-same"),
        pytest.param([None, (1, 0)], False, 1, id="as-it-is-and-transposed"),
        pytest.param([(0, 1), (1, 0)], False, 2, id="two"),
        pytest.param([None, None], False, 0, id="views"),
    ],
)
def test_a_weight_that_is_read_in_two_layouts_is_stored_once(orders, transposed, layouts):
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
    main, kept = fold_weights(products(*orders), 1, [weight])
    assert len({array.ctypes.data for array in kept}) == 1
    np.testing.assert_array_equal(kept[0], weight.T if transposed else weight)
    assert main.script().count("permute_dims") == layouts
