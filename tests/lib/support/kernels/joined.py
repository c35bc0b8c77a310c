"""Some ops of Relax as one kernel, as the analysis reads it."""

from __future__ import annotations

from tvm import relax
from tvm.relax import op
from tvm.relax.transform import AnnotateTIROpPattern, LegalizeOps

import relay_passes as relay
from support.kernels import stitch_case as sc
from support.models import relax_models as rm
from tir_schedules.kernel_ir.stage import Kernel


def kernel_of(emit, *shapes: tuple[int, ...], dtype: str = "float32") -> Kernel:
    """Return the one kernel that all ops of `emit` make together, not inlined."""
    arrays = [a.astype(dtype) for a in rm.arrays(*shapes)]
    grouping = relay.transform.StitchOps(sc.device())
    with rm.cpu():
        legal = relay.transform.Sequential([LegalizeOps(), AnnotateTIROpPattern()])(
            rm.module(emit, *arrays)
        )
        grouping(legal)
    found = [g for plan in grouping.graphs for g in plan.groups]
    (group,) = [g for g in found if isinstance(g.nodes[0].kernel, Kernel)]
    return group.kernel()


def emit_split(b, p):
    parts = b.emit(op.split(p, 2, axis=1))
    first, second = (b.emit(relax.TupleGetItem(parts, i)) for i in range(2))
    return b.emit(op.multiply(b.emit(op.exp(first)), second))


def emit_concat(b, p, q):
    return b.emit(op.exp(b.emit(op.concat([b.emit(op.negative(p)), q], axis=1))))


def emit_flip(b, p):
    return b.emit(op.add(b.emit(op.flip(b.emit(op.exp(p)), axis=1)), p))
