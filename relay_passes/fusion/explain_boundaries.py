"""Why kernels end where they do: for each edge between two, what one kernel of both would be."""

from __future__ import annotations

from ..cost.fusion_units import FusionUnits
from ..cost.group_cost import ExactJudge
from ..graph.fusion_plan import homes
from ..graph.group import Group
from ..graph.legality import has_outer_path
from ..graph.op_graph import OpNode


def explain(groups: list[Group], units: FusionUnits, exact: ExactJudge, out_of_fuel: bool) -> None:
    """Append to each group's `stopped` a line for each edge to or from another group."""
    home = homes(groups)
    number = {n: i for i, unit in enumerate(units.units) for n in unit.group.nodes}
    said: dict[tuple[Group, Group], str] = {}
    for group in groups:
        for consumer in group.nodes:
            for producer in consumer.producers:
                other = home[producer]
                if other is group or producer.is_constant:
                    continue
                pair = (other, group)
                if pair not in said:
                    said[pair] = _reason(other, group, home, number, exact, out_of_fuel)
                note = f"{producer.name} -> {consumer.name}: {said[pair]}"
                if consumer.is_result:
                    note = f"{producer.name}: is a result of the model"
                for end in (other, group):
                    if note not in end.stopped:
                        end.stopped.append(note)


def _reason(
    left: Group,
    right: Group,
    home: dict[OpNode, Group],
    number: dict[OpNode, int],
    exact: ExactJudge,
    out_of_fuel: bool,
) -> str:
    parts = [frozenset(number[n] for n in group.nodes) for group in (left, right)]
    whole = parts[0] | parts[1]
    for part in parts:
        if (refusal := exact.refusal(part)) is not None:
            return refusal
    if has_outer_path(left, right, home):
        return "another kernel stands between them: the union would be a cycle"
    reason, together = exact.judge(whole)
    if reason is not None:
        return reason
    if out_of_fuel:
        return "out of fuel"
    apart = sum(exact.judge(part)[1] for part in parts)
    return f"one kernel would take {together / 1e3:.2f} us, two take {apart / 1e3:.2f}"
