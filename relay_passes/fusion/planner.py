"""The planner: the explorer on an op graph's units, its plans judged kernel by kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tir_schedules.analysis.kernel_facts import COMPUTE
from tir_schedules.device import Device
from tir_schedules.fuel import is_out, left, spend

from ..cost.contraction_cost import Judged, ProductJudge
from ..cost.forecast import forecast
from ..cost.fusion_units import FusionUnits
from ..cost.group_cost import ExactJudge, FastJudge
from ..cost.traffic_cost import TrafficCost
from ..explorer import Dag, Pattern, assemble, candidates, improve
from ..explorer.dag import Nodes
from ..graph.fusion_plan import FusionPlan, execution_order
from ..graph.group import Group
from ..graph.legality import refuse_node
from ..graph.op_graph import OpGraph, OpNode
from ..policy import POLICY, FusionPolicy, SearchPolicy
from .absorb_epilogues import absorb_epilogues
from .contraction_chains import chains
from .explain_boundaries import explain
from .horizontal_fusion import siblings
from .merge_groups import join_best
from .prologue_epilogue import prologues, row_epilogues
from .recompute import recompute


class StitchPlanner:
    """Choose the groups of one graph after another; identical parts are judged once.

    Each join costs fuel.
    """

    def __init__(self, device: Device, policy: FusionPolicy = POLICY.fusion) -> None:
        self._device, self._policy = device, policy
        self._skeletons: dict[tuple, bool] = {}
        self._kernels: dict[tuple, tuple[str | None, float]] = {}
        self._products: dict[tuple, Judged] = {}

    def plan(self, graph: OpGraph) -> FusionPlan:
        joins, policy = _Joins(), self._policy
        doubt, reach = policy.join_doubt, policy.reach
        home = {n: Group([n]) for n in graph.nodes}
        judge = ProductJudge(graph, self._device, self._products)
        for node in graph.nodes:
            if node.op_class == COMPUTE and refuse_node(node) is None:
                absorb_epilogues(node, home, judge.refuse, joins.spend)
        around = [*chains(graph, reach), *siblings(graph, home, self._device.l2_bytes)]
        join_best(around, home, judge, doubt, joins.spend)
        join_best(row_epilogues(graph, home, reach), home, judge, doubt, joins.spend)
        join_best(prologues(graph, home, reach), home, judge, doubt, joins.spend)
        units = FusionUnits(list(dict.fromkeys(home.values())))
        exact = ExactJudge(units, self._device, self._kernels)
        delta = TrafficCost(self._device)
        chosen = self._search(units, exact, delta)
        kernels = [joins.cut(p.nodes, units, exact) for p in chosen]
        taken = {n for kernel in kernels for n in kernel}
        groups = [units.union(kernel) for kernel in kernels if kernel]
        groups += [u.group for n, u in enumerate(units.units) if n not in taken]
        out_of_fuel = is_out()
        if not out_of_fuel:
            groups = recompute(graph, groups, exact, delta, policy)
        ordered = execution_order(groups)
        return FusionPlan(
            graph,
            ordered,
            joins.made,
            partial(explain, ordered, units, exact, out_of_fuel),
            partial(forecast, kernels, units, exact, self._device),
        )

    def _search(self, units: FusionUnits, exact: ExactJudge, delta: TrafficCost) -> list[Pattern]:
        """Return the best of the beam's plans as the latency-evaluator sees them."""
        fast = FastJudge(units, delta, self._device, self._skeletons)
        dag, search = units.dag, self._policy.search
        plans = assemble(dag, candidates(dag, fast, search.top, search.leaf), search.width)
        best: list[Pattern] = []
        gain = -math.inf
        for plan in plans:
            better = improve(dag, fast, plan, search.rounds, search.pack_reach)
            settled = settle(dag, exact, better, self._policy)
            total = sum(p.score for p in settled)
            if total > gain:
                best, gain = settled, total
        return best


def settle(
    dag: Dag, exact: ExactJudge, plan: Sequence[Pattern], policy: FusionPolicy
) -> list[Pattern]:
    """Return the plan with each kernel tested for itself, and taken apart where it does not pay."""
    out: list[Pattern] = []
    for pattern in plan:
        kernels = _paying(exact, sorted(pattern.nodes), policy.doubt)
        if len(kernels) == 1:
            out += kernels
        else:
            out += _joined(dag, exact, pattern.nodes, kernels, policy.search)
    return out


def _paying(exact: ExactJudge, members: list[int], doubt: float) -> list[Pattern]:
    """Return the set if it is a kernel that pays, else what pays of its halves.

    The first units of a convex set in an order of execution are a convex set, and so are the rest.
    """
    if len(members) < 2:
        return []
    nodes = frozenset(members)
    score = exact.score(nodes)
    if score is not None and score > -doubt * exact.judge(nodes)[1]:
        return [Pattern(nodes, score)]
    half = len(members) // 2
    return [*_paying(exact, members[:half], doubt), *_paying(exact, members[half:], doubt)]


def _joined(
    dag: Dag,
    exact: ExactJudge,
    nodes: Nodes,
    kernels: Sequence[Pattern],
    search: SearchPolicy,
) -> list[Pattern]:
    """Return kernels within a set after joins that each gain."""
    members = sorted(nodes)
    number = {node: index for index, node in enumerate(members)}
    part = Dag([[number[c] for c in dag.consumers[n] if c in number] for n in members])
    start = [Pattern(frozenset(number[n] for n in k.nodes), k.score) for k in kernels]
    judge = _Within(exact, members)
    found = improve(part, judge, start, search.rounds, search.pack_reach)
    return [Pattern(frozenset(members[n] for n in p.nodes), p.score) for p in found]


class _Within:
    """A judge of numbered members of a set."""

    def __init__(self, judge: ExactJudge, members: Sequence[int]) -> None:
        self._judge, self._members = judge, members

    def score(self, nodes: Nodes) -> float | None:
        return self._judge.score(frozenset(self._members[n] for n in nodes))

    def accepts(self, nodes: Nodes) -> bool:
        return self._judge.accepts(frozenset(self._members[n] for n in nodes))


class _Joins:
    """Makes joins as long as there is fuel, and counts them."""

    def __init__(self) -> None:
        self.made = 0

    def spend(self, nodes: Sequence[OpNode]) -> bool:
        if not spend("fuse", *(node.var.name for node in nodes)):
            return False
        self.made += 1
        return True

    def cut(self, nodes: Nodes, units: FusionUnits, exact: ExactJudge) -> Nodes:
        """Return the part of a kernel that fuel is left for: its first units, as far as they fit.

        The first units of a convex set in an order of execution are a convex set.
        """
        members = sorted(nodes)
        most = len(members) if left() is None else 1 + left()
        for count in range(min(most, len(members)), 1, -1):
            part = frozenset(members[:count])
            if count == len(members) or exact.accepts(part):
                first, *others = (units.units[n].group.nodes[0] for n in members[:count])
                for other in others:
                    self.spend([first, other])
                return part
        return frozenset()
