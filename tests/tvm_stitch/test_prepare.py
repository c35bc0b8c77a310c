"""Which parts of a graph are made when its model is loaded, and by what."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, te, topi
from tvm.ir import IRModule

from support.models import relax_models
from tvm_stitch.prepare import prepare_weights
from tvm_stitch.runtime.artifact import Prepared, prepare_name

SHAPE = (8, 8)
X, W = relax_models.arrays(SHAPE, SHAPE)


def double(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x(*i) + x(*i), "double")


def product(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    return topi.matmul(x, w)


def graph(emit: relax_models.Emit, weights: int = 1) -> IRModule:
    """Return a graph of one input and some weights."""
    mod = relax_models.module(emit, X, *[W] * weights)
    mod["main"] = mod["main"].with_attr("num_input", 1)
    return mod


def call(builder: relax.BlockBuilder, function, *args: relax.Expr) -> relax.Var:
    return builder.emit(builder.call_te(function, *args, primfunc_name_hint=function.__name__))


def computed(mod: IRModule, prepared: tuple[Prepared, ...], *weights: np.ndarray) -> np.ndarray:
    """Return the graph's result, the weights prepared as a library does."""
    values = [tvm.runtime.tensor(weight) for weight in weights]
    built = tvm.compile(mod, relax_models.cpu())
    for each in prepared:
        values.append(tvm.runtime.tensor(np.full(each.shape, np.nan, each.dtype)))
        kernel = IRModule({"main": mod[prepare_name(each.kernel)].with_attr("global_symbol", "f")})
        tvm.compile(kernel, relax_models.cpu())["f"](values[each.source], values[-1])
    machine = relax.VirtualMachine(built, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(X), *values).numpy()


def assert_main(mod: IRModule, expected: IRModule) -> None:
    tvm.ir.assert_structural_equal(
        *(relax.transform.DeadCodeElimination()(each)["main"] for each in (mod, expected)),
        map_free_vars=True,
    )


def test_what_a_kernel_makes_of_a_weight_becomes_a_weight():
    def before(builder, x, w):
        return call(builder, product, x, call(builder, double, w))

    def after(builder, x, _, made):
        return call(builder, product, x, made)

    mod, prepared = prepare_weights(graph(before))
    assert prepared == (Prepared(0, 0, SHAPE, "float32"),)
    assert_main(mod, graph(after, 2))
    np.testing.assert_allclose(computed(mod, prepared, W), X @ (W + W), rtol=1e-5, atol=1e-5)


def test_a_layout_that_a_kernel_reads_becomes_a_weight():
    def before(builder, x, w):
        value = builder.emit(relax.op.nn.pad(w, [0, 0, 8, 0]))
        value = builder.emit(relax.op.reshape(value, (8, 2, 8)))
        value = builder.emit(relax.op.permute_dims(value, [1, 0, 2]))
        return call(builder, second, x, value)

    def second(x: te.Tensor, panels: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 8), "k")
        return te.compute(SHAPE, lambda i, j: te.sum(x[i, k] * panels[1, k, j], axis=k), "second")

    mod, prepared = prepare_weights(graph(before))
    assert prepared == (Prepared(0, 0, (2, 8, 8), "float32"),)
    assert "permute_dims" not in mod["main"].script()
    np.testing.assert_allclose(computed(mod, prepared, W), X @ W, rtol=1e-5, atol=1e-5)


def test_kernels_of_prepared_weights_prepare_more_and_nothing_is_made_twice():
    def emit(builder, x, w, v):
        four = call(builder, double, call(builder, double, w))
        same = call(builder, double, builder.emit(relax.op.permute_dims(w)))
        first = call(builder, product, x, call(builder, double, w))
        second = call(builder, product, first, four)
        third = call(builder, product, second, same)
        return call(builder, product, third, call(builder, double, v))

    mod, prepared = prepare_weights(graph(emit, 2))
    # 2 w, 4 w, w turned, that doubled, 2 v
    assert [(each.kernel, each.source) for each in prepared] == [
        (0, 0),
        (0, 2),
        (1, 0),
        (0, 4),
        (0, 1),
    ]
    expected = X @ (2 * W) @ (4 * W) @ (2 * W.T) @ (2 * W)
    np.testing.assert_allclose(computed(mod, prepared, W, W), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "emit",
    [
        pytest.param(
            lambda builder, x, w: builder.emit(
                relax.op.matmul(x, builder.emit(relax.op.permute_dims(w)))
            ),
            id="a-layout-that-an-operator-reads",
        ),
        pytest.param(lambda builder, x, w: call(builder, product, x, w), id="the-weight-itself"),
        pytest.param(lambda builder, x, w: call(builder, product, w, w), id="of-two-arguments"),
        pytest.param(
            lambda builder, x, w: call(builder, product, call(builder, double, x), w),
            id="of-an-input",
        ),
        pytest.param(lambda builder, x, w: builder.emit(relax.op.permute_dims(w)), id="a-result"),
    ],
)
def test_all_else_stays(emit):
    before = graph(emit)
    mod, prepared = prepare_weights(before)
    assert not prepared
    tvm.ir.assert_structural_equal(mod, before)
