"""What kernels that hold products are predicted to take, and what passes from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tir_schedules.backend import Judged, backend
from tir_schedules.device import Device

from ..graph.group import Group
from ..graph.op_graph import OpGraph


class ProductJudge:
    """Judges groups of the ops of one graph; identical ones once, for which `known` is kept."""

    def __init__(self, graph: OpGraph, device: Device, known: dict[tuple, Judged]) -> None:
        self._device, self._costs = device, backend(device).costs
        self._known = known
        made = {t for n in graph.nodes for t in n.outputs}
        read = {t: t.bytes for n in graph.nodes for t in n.inputs if t not in made}
        self._bytes = sum(read.values())

    def __call__(self, group: Group) -> tuple[str | None, float]:
        """Return why products lose by one kernel of these ops, or None, and its time in ns."""
        judged = self._judged(group)
        return judged.refusal, judged.ns

    def refuse(self, group: Group) -> str | None:
        """Return why products lose by one kernel of these ops, or None."""
        return self._judged(group).refusal

    def between(self, parts: Sequence[Group], union: Group) -> float:
        """Return the ns by which `parts` take longer, one after the other, than each by itself.

        Told of chains along rows alone. What one kernel makes by columns and the next reads by rows
        comes from another core's cache. Against that, of the union each thread reads all weights.
        Nothing of parts that have no plan: they take forever anyway.
        """
        chain = self._judged(union).plan
        if not self._costs.is_row_chain(chain):
            return 0.0
        plans = [plan for part in parts if (plan := self._judged(part).plan) is not None]
        if len(plans) < len(parts):
            return 0.0
        weights = sum(self._costs.fresh_ns(plan, self._bytes, self._device) for plan in plans)
        passing = 0.0
        for maker, made in zip(parts, plans, strict=True):
            for reader, read in zip(parts, plans, strict=True):
                inputs = {t: n for n, t in enumerate(reader.inputs())}
                for number, tensor in enumerate(maker.outputs()):
                    if (position := inputs.get(tensor)) is not None:
                        out = made.kernel.outputs[number]
                        into = read.kernel.params[position]
                        passing += self._costs.handover_ns(made, out, read, into, self._device)
        return passing + weights - self._costs.fresh_ns(chain, self._bytes, self._device)

    def _judged(self, group: Group) -> Judged:
        key = group.signature()
        if key not in self._known:
            judged = backend(self._device).judge(group.kernel(), self._device)
            if judged.refusal is None and (why := self._costs.slower(judged.plan, self._device)):
                judged = replace(judged, refusal=why)
            self._known[key] = judged
        return self._known[key]
