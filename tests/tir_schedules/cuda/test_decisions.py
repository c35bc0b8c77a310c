"""Decisions of CUDA kernels: as JSON and back, each of them right, those that can't be refused."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tvm import te, tirx

from support.cuda.checked import H200, planned, wrong
from support.cuda.kernels import fused
from support.kernels import stitch_case as sc
from tir_schedules.cuda import template
from tir_schedules.cuda.decide.candidates import candidates
from tir_schedules.cuda.decide.numbered import Numbers
from tir_schedules.cuda.facts.reading import reading_of
from tir_schedules.cuda.legal.phase import build_phase
from tir_schedules.cuda.plan.decisions import Decisions, PartDecisions
from tir_schedules.decisions import from_json, knobs, to_json, with_knob
from tir_schedules.kernel_ir.parse import read

SUBGRAPHS = [
    sc.Case("softmax", (3, 67)),
    sc.Case("layernorm", (5, 96)),
    sc.Case("groupnorm", (2, 6, 5, 7)),
    sc.Case("row_and_column", (17, 31)),
    sc.Case("bias_gelu", (7, 24)),
]


def transposed(m: int, n: int) -> tirx.PrimFunc:
    x = te.placeholder((m, n), "float32", "x")
    return te.create_prim_func([x, te.compute((n, m), lambda i, j: x[j, i] + te.exp(x[j, i]), "y")])


def a_kernel(case: sc.Case | None) -> tirx.PrimFunc:
    if case is None:
        return transposed(70, 45)
    (func,) = fused(case.model())
    return func


def legal(func: tirx.PrimFunc) -> list[Decisions]:
    """Return all decisions that the planner chooses from, those that have a plan."""
    space = reading_of(read(func)).space()
    ways = candidates(space, Numbers(space))
    return [Decisions((way,)) for way in ways if not isinstance(build_phase(space, way, H200), str)]


@pytest.mark.long(every=4)
@pytest.mark.parametrize("case", [*SUBGRAPHS, None], ids=lambda case: case.id if case else "turned")
def test_other_decisions_are_right_too(case):
    func = a_kernel(case)
    found = legal(func)
    assert len(found) > 10
    staged = [each for each in found if each.phases[0].staged]
    drawn = random.Random(len(found)).sample(found, 2) + staged[:1]
    for decisions in drawn:
        gpu = planned(func, from_json(Decisions, to_json(decisions)))
        assert wrong(func, gpu, seed=1, orders=1) is None, str(gpu.plan)


def test_json_replays_the_same_kernel():
    func = a_kernel(SUBGRAPHS[1])
    kernel = read(func)
    decisions = template.default_decisions(kernel, H200)
    again = from_json(Decisions, to_json(decisions))
    assert again == decisions
    texts = {
        template.emit_plan(template.plan(kernel, each, H200), func).script()
        for each in (decisions, again)
    }
    assert len(texts) == 1


def test_each_knob_changes_the_kernel():
    """Or what it is changed to is refused."""
    func = a_kernel(SUBGRAPHS[0])
    kernel = read(func)
    decisions = template.default_decisions(kernel, H200)
    before = template.emit_plan(template.plan(kernel, decisions, H200), func).script()
    changed, refused = set(), set()
    for path, value in knobs(decisions).items():
        for other in (not value,) if isinstance(value, bool) else (2 * value, value // 2 or 4, 0):
            plan = template.plan(kernel, with_knob(decisions, path, other), H200)
            name = path.rpartition(".")[2]
            if isinstance(plan, str):
                refused.add(name)
            elif template.emit_plan(plan, func).script() != before:
                changed.add(name)
    assert changed >= {"block", "threads", "holds", "unrolls"}, (changed, refused)


def _phase(decisions: Decisions, **fields: object) -> Decisions:
    return replace(decisions, phases=(replace(decisions.phases[0], **fields),))


def test_what_can_t_be_is_refused_with_its_reason():
    func = a_kernel(SUBGRAPHS[1])
    kernel = read(func)
    decisions = template.default_decisions(kernel, H200)
    phase = decisions.phases[0]
    nests = phase.nests
    three = tuple(replace(spread, threads=3) for spread in phase.spreads)
    cases = {
        "each stage is in one nest": _phase(decisions, nests=nests[1:]),
        "T_divide is before what it reads": _phase(decisions, nests=nests[::-1]),
        "the kernel has no stage 99": _phase(decisions, nests=(replace(nests[0], nodes=(99,)),)),
        "3 threads along an axis: a power of two": _phase(decisions, spreads=three),
        "an atom is in one view of one axis": _phase(decisions, axes=(*phase.axes, phase.axes[0])),
        "the kernel has no stage 98": replace(decisions, parts=(PartDecisions(98, 0, 2),)),
        "x_red in 1 parts of 96": replace(decisions, parts=(PartDecisions(0, 0, 1),)),
        "there are no tiles to load a step ahead": _phase(decisions, ahead=True),
    }
    found = {reason: template.plan(kernel, illegal, H200) for reason, illegal in cases.items()}
    assert found == {reason: reason for reason in cases}


def test_no_thread_adds_up_thousands_of_floats_one_by_one():
    """Of equal terms each addition errs to the same side."""
    x, k = te.placeholder((4096, 8), "float32", "x"), te.reduce_axis((0, 4096))
    func = te.create_prim_func([x, te.compute((8,), lambda j: te.sum(x[k, j], axis=k), "s")])
    kernel = read(func)
    decisions = template.default_decisions(kernel, H200)
    alone = tuple(replace(spread, threads=1) for spread in decisions.phases[0].spreads)
    plan = template.plan(kernel, _phase(decisions, spreads=alone), H200)
    assert plan == "a thread adds up 4096 terms of s one by one"


def test_a_block_is_refused_parts_of_what_it_needs_whole():
    func = a_kernel(SUBGRAPHS[0])
    kernel = read(func)
    decisions = template.default_decisions(kernel, H200)
    axes = [replace(axis, block=1) if axis.block > 1 else axis for axis in decisions.phases[0].axes]
    plan = template.plan(kernel, _phase(decisions, axes=tuple(axes)), H200)
    assert isinstance(plan, str)
    assert "blocks have parts of the sums" in plan


def test_a_nest_spread_in_its_own_way_reads_shared_memory():
    func = a_kernel(SUBGRAPHS[0])
    kernel = read(func)
    decisions = template.default_decisions(kernel, H200)
    phase = decisions.phases[0]
    *before, last = phase.nests
    other = tuple(replace(s, threads=max(1, s.threads // 2), width=1) for s in phase.spreads)
    nests = (*before, replace(last, own=other))
    reason = template.plan(kernel, _phase(decisions, nests=nests), H200)
    assert isinstance(reason, str)
    assert "is not where" in reason
    made = tuple(number for nest in before for number in nest.nodes)
    gpu = planned(func, _phase(decisions, nests=nests, shared=made))
    assert gpu.plan.phases[0].shared
    assert wrong(func, gpu, seed=3) is None


@pytest.mark.long(every=2)
@pytest.mark.parametrize("seed", range(3))
def test_drawn_decisions_are_right_or_refused(seed):
    rng = random.Random(seed)
    func = a_kernel([*SUBGRAPHS, None][seed % 3 * 2 + 1])
    kernel, ran = read(func), 0
    space = template.decision_space(kernel, H200)
    assert space.variants[0].default == template.default_decisions(kernel, H200)
    while ran < 2:
        decisions = space.sample(rng)
        if not isinstance(template.plan(kernel, decisions, H200), str):
            ran += 1
            assert wrong(func, planned(func, decisions), seed, orders=1) is None, decisions
