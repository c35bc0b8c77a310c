"""Chains whose links read the one before twice: written out, each link doubles the last."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.relax import op

import tvm_stitch
from support.models.relax_models import module
from tir_schedules.kernel_ir import expr
from tir_schedules.kernel_ir.expr import Axis, AxisRef, Load, Op, Tensor
from tir_schedules.kernel_ir.stage import Kernel, Stage
from tir_schedules.rewrites import inline
from tvm_stitch.build import Request, lower

LINKS = 40
X = np.linspace(-0.5, 0.5, 64, dtype=np.float32)
FIRST = X > 0


def choose(x: np.ndarray) -> np.ndarray:
    return x


def square(x: np.ndarray) -> np.ndarray:
    return x - x * np.maximum(x, 0)


CHAINS = {
    "where": (lambda b, c, x: b.emit(op.where(c, x, x)), choose),
    "square": (
        lambda b, _, x: b.emit(op.subtract(x, b.emit(op.multiply(x, b.emit(op.nn.relu(x)))))),
        square,
    ),
}


@pytest.mark.parametrize("fusion", ["stitch", "tvm"])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_forty_links_compiles(name, fusion):
    link, numpy = CHAINS[name]

    def emit(builder, c, x):
        for _ in range(LINKS):
            x = link(builder, c, x)
        return x

    compiled = tvm_stitch.compile(module(emit, FIRST, X), threads=1, fusion=fusion)
    want = X
    for _ in range(LINKS):
        want = numpy(want)
    (got,) = compiled.run({"x0": FIRST, "x1": X}).values()
    np.testing.assert_allclose(got, want, rtol=1e-5)


def kernel(links: int) -> Kernel:
    tensors = [Tensor(f"h{n}", (8,), "float32") for n in range(links + 1)]
    stages = []
    for before, after in itertools.pairwise(tensors):
        axis = Axis("i", 8)
        twice = tuple(Load(before, (AxisRef(axis),)) for _ in range(2))
        value = Op("Add", twice, "float32")
        stages.append(Stage(after.name, after, (axis,), (AxisRef(axis),), value))
    return Kernel("chain", (tensors[0], tensors[-1]), (tensors[-1],), tuple(stages))


@pytest.mark.parametrize("shape", [(1,), (64, 48)])
@pytest.mark.parametrize("name", ["sign", "where"])
def test_code_grows_with_the_links_and_not_with_their_power(name, shape):
    """Of one element nothing is in a loop: all of it is settled before any, and bound in parts."""

    def link(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        if name == "sign":
            return b.emit(op.sign(x))
        return b.emit(op.where(b.emit(op.less(x, relax.const(0.5))), relax.const(0.25), x))

    def written(links: int) -> int:
        b, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, "float32"))
        with b.function("main", [x]):
            with b.dataflow():
                y = x
                for _ in range(links):
                    y = link(b, y)
                y = b.emit_output(op.exp(y))
            b.emit_func_output(y)
        mod = lower(Request(b.finalize(), threads=2)).mod
        return max(
            len(f.script()) for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)
        )

    assert written(6) < 3 * written(3)


def test_no_value_grows_past_the_limit_and_short_chains_are_one_stage():
    (alone,) = inline.inline_stages(kernel(8)).stages
    assert alone.value.size == 3 * (1 << 8) - 1
    several = inline.inline_stages(kernel(14)).stages
    assert len(several) > 1
    assert max(stage.value.size for stage in several) <= inline._MOST_NODES


def test_the_size_of_an_expression_is_that_of_it_written_out():
    tensor = Tensor("a", (4,), "float32")
    load = Load(tensor, (AxisRef(Axis("i", 4)),))
    shared = Op("Neg", (load,), "float32")
    for _ in range(100):
        shared = Op("Add", (shared, shared), "float32")
    # A failing assertion would write the expression out.
    size, with_five = shared.size, expr.tree_size(shared, tensor, 5)
    assert size == 4 * (1 << 100) - 1
    assert with_five == 8 * (1 << 100) - 1
