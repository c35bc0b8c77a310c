"""The planner on op graphs: what it copies, what it takes apart, what it judges once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

import relay_passes as relay
import tvm_stitch
from relay_passes.cost.fusion_units import FusionUnits
from relay_passes.cost.group_cost import FastJudge
from relay_passes.cost.structure_key import Skeletons
from relay_passes.cost.traffic_cost import TrafficCost
from relay_passes.explorer import Dag, Pattern
from relay_passes.fusion.planner import StitchPlanner, settle
from relay_passes.graph.fusion_plan import FusionPlan
from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpGraph
from relay_passes.policy import POLICY
from relay_passes.rewrites.legalize.legalize import LEGALIZATIONS
from support.fusion_plans import SHAPE, graph_of, names, outer_product_read_twice, planned
from support.kernels import stitch_case as sc
from support.models import relax_models as rm


def test_a_cheap_producer_is_computed_where_it_is_read():
    model = outer_product_read_twice()
    plan = planned(model.mod)
    holders = [g for g in plan.groups if "multiply" in names(g)]
    assert len(holders) == 2
    (product,) = (n for n in plan.graph.nodes if n.name == "multiply")
    assert not any(t is product.outputs[0] for g in plan.groups for t in g.outputs())


def test_a_copied_producer_gives_the_same_numbers():
    model = outer_product_read_twice()
    inputs = {f"x{i}": array for i, array in enumerate(model.inputs)}
    (got,) = tvm_stitch.compile(model.mod).run(inputs).values()
    np.testing.assert_allclose(got, *model.expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", [op.exp, op.sort])
def test_what_is_not_cheap_is_never_copied(function: Callable):
    x, y = rm.arrays(SHAPE, SHAPE)

    def emit(builder: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> relax.Var:
        made = builder.emit(function(x))
        away = builder.emit(op.sort(builder.emit(op.add(made, y)), axis=1))
        return builder.emit(op.add(away, made))

    plan = planned(rm.module(emit, x, y))
    ops = [n for g in plan.groups for n in g.nodes]
    assert len(ops) == len({id(n) for n in ops}) == len(plan.graph.nodes)


def layers(count: int) -> tvm.ir.IRModule:
    x, w = rm.arrays((64, 128), (128, 128))

    def emit(builder: relax.BlockBuilder, x: relax.Var, w: relax.Var) -> relax.Var:
        for _ in range(count):
            y = builder.emit(op.nn.softmax(builder.emit(op.add(x, x))))
            x = builder.emit(op.tanh(builder.emit(op.matmul(y, w))))
        return x

    return rm.module(emit, x, w)


def test_identical_blocks_are_judged_once():
    asked = []
    for count in (3, 12):
        planner = StitchPlanner(sc.device())
        planner.plan(graph_of(layers(count)))
        asked.append((len(planner._kernels), len(planner._skeletons)))
    assert asked[0] == asked[1]


def chain(*functions: Callable) -> FusionUnits:
    (x,) = rm.arrays((64, 128))

    def emit(builder: relax.BlockBuilder, x: relax.Var) -> relax.Var:
        for function in functions:
            x = builder.emit(function(x))
        return x

    return FusionUnits([Group([n]) for n in graph_of(rm.module(emit, x)).nodes])


def key(*functions: Callable) -> tuple:
    units = chain(*functions)
    able = frozenset(n for n, unit in enumerate(units.units) if unit.refusal is None)
    return Skeletons(units).key(able)


def total(x: relax.Var) -> relax.Expr:
    return op.sum(x, axis=1, keepdims=True)


def test_sets_that_differ_in_element_wise_ops_have_one_skeleton():
    assert key(op.exp, op.nn.softmax, op.abs) == key(op.tanh, op.nn.softmax, op.negative, op.exp)


@pytest.mark.parametrize(
    "other",
    [(op.exp, op.abs), (op.exp, total, op.abs), (op.nn.softmax, op.permute_dims, op.abs)],
)
def test_sets_that_differ_in_reductions_or_layout_have_not(other):
    assert key(op.exp, op.nn.softmax, op.abs) != key(*other)


def test_a_value_that_stays_inside_a_kernel_is_not_moved():
    units = chain(op.abs, op.negative)
    delta = TrafficCost(sc.device())
    judge = FastJudge(units, delta, sc.device(), {})
    (between,) = units.units[0].makes
    (end,) = units.units[1].makes
    work = sum(delta.work_ns(n.kernel) for n in units.union((0, 1)).nodes)
    ends = sum(delta.crossing_ns(t) for t in (*units.units[0].reads, end))
    assert delta.crossing_ns(between) > 0
    assert judge._kernel_ns(frozenset((0, 1))) == pytest.approx(delta.kernel_ns(work, ends))


class _Limited:
    """An exact judge that takes sets of up to three, each join worth 1."""

    def score(self, nodes: frozenset[int]) -> float | None:
        return len(nodes) - 1.0 if self.accepts(nodes) else None

    def accepts(self, nodes: frozenset[int]) -> bool:
        return len(nodes) <= 3

    def judge(self, nodes: frozenset[int]) -> tuple[str | None, float]:
        return None, 1.0


def test_a_kernel_that_is_none_is_taken_apart_and_joined_again_as_far_as_it_goes():
    dag = Dag([[1], [2], [3], [4], [5], [6], []])
    found = settle(dag, _Limited(), [Pattern(frozenset(range(7)), 10.0)], POLICY.fusion)
    assert all(2 <= len(p.nodes) <= 3 for p in found)
    taken = [n for p in found for n in p.nodes]
    assert len(taken) == len(set(taken)) >= 6


def test_an_op_nobody_reads_is_planned_too():
    (x,) = rm.arrays((8, 16))

    def emit(builder: relax.BlockBuilder, x: relax.Var) -> relax.Var:
        builder.emit(op.exp(x))
        return builder.emit(op.tanh(builder.emit(op.abs(x))))

    plan = planned(rm.module(emit, x))
    assert any({"tir_abs", "tir_tanh"} <= set(names(g)) for g in plan.groups)


def test_small_kernels_that_nothing_connects_are_packed():
    x, y = rm.arrays((8, 16), (8, 16))

    def emit(builder: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> tuple[relax.Var, ...]:
        return builder.emit(op.exp(x)), builder.emit(op.abs(y))

    plan = planned(rm.module(emit, x, y))
    assert any({"tir_exp", "tir_abs"} <= set(names(g)) for g in plan.groups)


def test_the_pass_takes_another_planner():
    class Nothing:
        def plan(self, graph: OpGraph) -> FusionPlan:
            return FusionPlan(graph, [Group([n]) for n in graph.nodes], 0)

    legal = relax.transform.LegalizeOps(LEGALIZATIONS)(layers(2))
    stitch = relay.transform.StitchOps(sc.device(), planner=Nothing())
    planned = relay.transform.Sequential([stitch, relax.transform.FuseOps()])(legal)
    tvm.ir.assert_structural_equal(planned["main"], relax.transform.Normalize()(legal)["main"])


def test_functions_of_one_name_are_told_apart_and_equal_ones_are_not():
    """A planner remembers what it found of a kernel in one module when it is given another."""
    hashes = []
    for shape, times in ((SHAPE, 2), ((SHAPE[1], SHAPE[0]), 1)):
        x, *_ = rm.arrays(shape)

        def emit(builder: relax.BlockBuilder, x: relax.Var, times=times) -> relax.Var:
            for _ in range(times):
                x = builder.emit(op.exp(x))
            return x

        nodes = graph_of(rm.module(emit, x)).nodes
        hashes.append({n.func_hash for n in nodes if n.name == "tir_exp"})
    assert [len(each) for each in hashes] == [1, 1]
    assert hashes[0] != hashes[1]
