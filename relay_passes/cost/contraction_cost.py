"""What kernels that hold products are predicted to take, and what passes from one to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tir_schedules.cpu.accept.acceptance import accepted_plan, refuse_products
from tir_schedules.cpu.cost.core_transfer import fresh_ns, handover_ns
from tir_schedules.cpu.cost.streaming_latency import estimate_any
from tir_schedules.cpu.decide.row_chains import row_chain
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.device import Device

from ..graph.group import Group
from ..graph.op_graph import OpGraph


@dataclass(frozen=True)
class Judged:
    """What is known of a group: why it is no kernel, or None, its time in ns, and its plan."""

    refusal: str | None
    time: float
    plan: Plan | None


class ProductJudge:
    """Judges groups of the ops of one graph; identical ones once, for which `known` is kept."""

    def __init__(self, graph: OpGraph, device: Device, known: dict[tuple, Judged]) -> None:
        self._device = device
        self._known = known
        made = {id(t) for n in graph.nodes for t in n.outputs}
        read = {id(t): t.bytes for n in graph.nodes for t in n.inputs if id(t) not in made}
        self._bytes = sum(read.values())

    def __call__(self, group: Group) -> tuple[str | None, float]:
        """Return why products lose by one kernel of these ops, or None, and its time in ns."""
        judged = self._judged(group)
        return judged.refusal, judged.time

    def between(self, parts: Sequence[Group], union: Group) -> float:
        """Return the ns by which `parts` take longer, one after the other, than each by itself.

        Told of chains along rows alone. What one kernel makes by columns and the next reads by rows
        comes from another core's cache. Against that, of the union each thread reads all weights.
        Nothing of parts that have no plan: they take forever anyway.
        """
        chain = self._judged(union).plan
        if not any(row_chain(p.nodes, p.numbering(), p.chunks) for p in chain.phases):
            return 0.0
        plans = [plan for part in parts if (plan := self._judged(part).plan) is not None]
        if len(plans) < len(parts):
            return 0.0
        weights = sum(fresh_ns(plan, self._bytes, self._device) for plan in plans)
        passing = 0.0
        for maker, made in zip(parts, plans, strict=True):
            for reader, read in zip(parts, plans, strict=True):
                inputs = {id(t): n for n, t in enumerate(reader.inputs())}
                for number, tensor in enumerate(maker.outputs()):
                    if (position := inputs.get(id(tensor))) is not None:
                        out = made.space.kernel.outputs[number]
                        into = read.space.kernel.params[position]
                        passing += handover_ns(made, out, read, into, self._device)
        return passing + weights - fresh_ns(chain, self._bytes, self._device)

    def _judged(self, group: Group) -> Judged:
        key = group.signature()
        if key not in self._known:
            reason, plan = accepted_plan(group.kernel(), self._device)
            time = estimate_any(plan, self._device).total if plan is not None else math.inf
            refusal = reason or refuse_products(plan, self._device)
            self._known[key] = Judged(refusal, time, plan)
        return self._known[key]
