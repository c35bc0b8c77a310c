"""Op graphs of small modules, and what the planner makes of them."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from relay_passes.fusion.planner import StitchPlanner
from relay_passes.graph.fusion_plan import FusionPlan
from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpGraph
from relay_passes.rewrites.legalize.legalize import LEGALIZATIONS
from support.kernels import stitch_case as sc
from support.models import relax_models as rm

SHAPE = (512, 1024)


def graph_of(mod: tvm.ir.IRModule) -> OpGraph:
    legal = relax.transform.LegalizeOps(LEGALIZATIONS)(mod)
    (block,) = [b for b in legal["main"].body.blocks if isinstance(b, relax.DataflowBlock)]
    return OpGraph(legal, block, {})


def planned(mod: tvm.ir.IRModule, **options: object) -> FusionPlan:
    return StitchPlanner(sc.device(), **options).plan(graph_of(mod))


def names(group: Group) -> list[str]:
    return [n.name for n in group.nodes]


def outer_product_read_twice() -> rm.Relaxed:
    """Return a large tensor, cheap to compute from small ones, read on both sides of a sort."""
    x, a, b = rm.arrays(SHAPE, (SHAPE[0], 1), (1, SHAPE[1]))

    def emit(builder: relax.BlockBuilder, x: relax.Var, a: relax.Var, b: relax.Var) -> relax.Var:
        product = builder.emit(op.multiply(a, b))
        first = builder.emit(op.exp(builder.emit(op.add(x, product))))
        away = builder.emit(op.sort(first, axis=1))
        return builder.emit(op.tanh(builder.emit(op.multiply(away, product))))

    product = a * b
    expected = np.tanh(np.sort(np.exp(x + product), axis=1) * product)
    return rm.Relaxed(rm.module(emit, x, a, b), (x, a, b), (expected,))
