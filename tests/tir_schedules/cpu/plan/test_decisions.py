"""Decisions are data: through JSON and back, into other text, or to a reason why not."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from random import Random

import pytest
from tvm import tirx

from support.decisions import case as decision_case
from support.decisions import kernels as dk
from tir_schedules.cpu import template
from tir_schedules.cpu.plan.decisions import (
    AttentionDecisions,
    Decisions,
    NestDecisions,
    PhaseDecisions,
)
from tir_schedules.decisions import (
    KNOB,
    DecisionsError,
    from_json,
    knobs,
    to_json,
    variant,
    with_knob,
)
from tir_schedules.kernel_ir.parse import read
from tir_schedules.kernel_ir.stage import Kernel

POINT_KNOBS = ("shuffles", "reciprocals")


def emitted(func: tirx.PrimFunc, kernel: Kernel, decisions: Decisions) -> str | None:
    """Return the text that decisions make of a kernel, None if they are illegal."""
    plan = template.plan(kernel, decisions, dk.DEVICE)
    return None if isinstance(plan, str) else template.emit_plan(plan, func).script()


@pytest.mark.parametrize("name", dk.NAMES)
def test_what_goes_through_json_makes_the_same_kernel(name):
    for func in dk.kernels(name):
        kernel = read(func)
        decided = template.default_decisions(kernel, dk.DEVICE)
        again = from_json(Decisions, to_json(decided))
        assert again == decided
        other = read(func)  # numbers are of the kernel, not of what was read of it once
        assert emitted(func, other, again) == emitted(func, kernel, decided)


@pytest.mark.long(every=5)
@pytest.mark.parametrize("name", dk.NAMES)
def test_each_variant_is_legal_and_has_what_is_decided_among_its_candidates(name):
    for func in dk.kernels(name):
        kernel = read(func)
        space = template.decision_space(kernel, dk.DEVICE)
        decided = template.default_decisions(kernel, dk.DEVICE)
        assert space.variants[0].default == decided
        assert len({v.variant for v in space.variants}) == len(space.variants)
        for each in space.variants:
            assert emitted(func, kernel, each.default) is not None, each.variant
            values = knobs(each.default)
            assert {knob.path: knob.candidates[0] for knob in each.knobs} == values


def knob_names(kind: type) -> set[str]:
    return {f"{kind.__name__}.{f.name}" for f in fields(kind) if KNOB in f.metadata}


def owner(decisions: Decisions, path: str) -> str:
    """Return a knob by the class that has it."""
    part: object = decisions
    *steps, name = path.split(".")
    for step in steps:
        part = part[int(step)] if isinstance(part, tuple) else getattr(part, step)
    assert is_dataclass(part)
    return f"{type(part).__name__}.{name}"


@pytest.mark.long
def test_each_knob_changes_what_is_emitted():
    kinds = (Decisions, PhaseDecisions, NestDecisions, AttentionDecisions)
    left = set().union(*map(knob_names, kinds))
    for name in dk.NAMES:
        for func in dk.kernels(name):
            kernel = read(func)
            for space in template.decision_space(kernel, dk.DEVICE).variants:
                usual = None
                for knob in space.knobs:
                    named = owner(space.default, knob.path)
                    if named not in left:
                        continue
                    usual = usual or emitted(func, kernel, space.default)
                    for value in knob.candidates[1:]:
                        changed = with_knob(space.default, knob.path, value)
                        text = emitted(func, kernel, changed)
                        if text is not None and text != usual:
                            assert variant(changed) == variant(space.default)
                            left.discard(named)
                            break
    assert not left


@pytest.mark.long(every=4)
@pytest.mark.parametrize("name", dk.NAMES)
def test_a_choice_that_is_not_offered_changes_nothing(name):
    for func in dk.kernels(name):
        kernel = read(func)
        for space in template.decision_space(kernel, dk.DEVICE).variants:
            rng = Random(space.variant)
            points = [k for k in space.knobs if k.path.endswith(POINT_KNOBS)]
            idle = [k.path for k in points if len(k.candidates) == 1]
            for made in (space.default, *(space.sample(rng) for _ in range(4))):
                usual = emitted(func, kernel, made)
                for path in idle if usual is not None else ():
                    other = with_knob(made, path, not knobs(made)[path])
                    assert emitted(func, kernel, other) == usual, path


def test_shuffles_and_reciprocals_are_offered_where_they_matter():
    kernel, _ = decided("norm")
    knobs_of = template.decision_space(kernel, dk.DEVICE).variants[0].knobs
    points = [k for k in knobs_of if k.path.endswith(POINT_KNOBS)]
    assert len(points) > 2
    assert [k for k in points if len(k.candidates) > 1] == points[-1:]


@pytest.mark.long(every=6)
@pytest.mark.parametrize("seed", Random(0).sample(range(1 << 16), 16))
def test_random_decisions_are_right(seed):
    found, _ = decision_case.wrong(seed)
    assert not found


def test_an_element_that_a_lane_compares_with_itself_may_be_nan():
    """These decisions leave one lane of three columns: x[i, 2] == x[i, 2] to TVM, which is true."""
    found, _ = decision_case.wrong(134354591)
    assert not found


def test_random_decisions_are_drawn():
    drawn = [decision_case.wrong(seed)[1] for seed in range(5)]
    assert sum(len(each.decisions) for each in drawn) >= 5


def decided(name: str) -> tuple[Kernel, Decisions]:
    (func,) = dk.kernels(name)
    kernel = read(func)
    return kernel, template.default_decisions(kernel, dk.DEVICE)


def changed_nest(decisions: Decisions, at: int, **changes: object) -> Decisions:
    (phase,) = decisions.phases
    nests = [*phase.nests]
    nests[at] = replace(nests[at], **changes)
    return replace(decisions, phases=(replace(phase, nests=tuple(nests)),))


def changed_phase(decisions: Decisions, **changes: object) -> Decisions:
    (phase,) = decisions.phases
    return replace(decisions, phases=(replace(phase, **changes),))


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("softmax", lambda d: changed_nest(d, 0, lanes=48), "no power of two"),
        ("softmax", lambda d: changed_nest(d, 0, lanes=1024), "1024 lanes along 640"),
        ("softmax", lambda d: changed_nest(d, 0, strip=3), "loops that are not there"),
        ("softmax", lambda d: changed_nest(d, 0, loops=()), "other axes than the loops"),
        ("softmax", lambda d: changed_nest(d, 0, rows=2), "without a register tile"),
        ("softmax", lambda d: changed_nest(d, 0, form="spiral"), "no form of a nest"),
        ("softmax", lambda d: changed_nest(d, 0, nodes=(99,)), "no node 99"),
        ("softmax", lambda d: changed_phase(d, tile=((1, 0),)), "cut sums"),
        ("softmax", lambda d: changed_phase(d, tile=((0, 0), (0, 0))), "twice"),
        ("softmax", lambda d: changed_phase(d, tile=()), "other axes than the loops"),
        ("softmax", lambda d: changed_phase(d, nests=d.phases[0].nests[::-1]), "before it is made"),
        ("softmax", lambda d: changed_phase(d, nests=d.phases[0].nests[1:]), "once"),
        ("softmax", lambda d: replace(d, phases=()), "in no phase"),
        ("softmax", lambda d: replace(d, phases=d.phases * 2), "in two phases"),
        ("softmax", lambda d: replace(d, tasks=0), "0 tasks"),
        ("softmax", lambda d: replace(d, streamed=(1,)), "no result 1"),
        ("pooled", lambda d: changed_nest(d, 0, strip=1), "a sum goes on outside the strip"),
        ("copy", lambda d: replace(changed_nest(d, 0, lanes=256), streamed=(0,)), "one call"),
        ("product", lambda d: changed_nest(d, 0, rows=1), "of one row"),
        ("product", lambda d: changed_nest(d, 0, strip=0), "rows"),
    ],
)  # fmt: skip
def test_what_can_not_be_done_has_a_reason(name, change, reason):
    kernel, decisions = decided(name)
    answer = template.plan(kernel, change(decisions), dk.DEVICE)
    assert isinstance(answer, str)
    assert reason in answer


@pytest.mark.parametrize(
    ("name", "lanes", "reason"),
    [("partial", 2, "lanes of a single point"), ("columns", 1024, "1024 lanes along")],
)
def test_partial_sums_are_added_up_in_lanes_that_there_are(name, lanes, reason):
    (kernel,) = map(read, dk.kernels(name))
    usual = [space.default for space in template.decision_space(kernel, dk.DEVICE).variants]
    found = [
        (d, p) for d in usual for p, v in knobs(d).items() if p.endswith("combine_lanes") and v
    ]
    assert found
    for default, path in found:
        answer = template.plan(kernel, with_knob(default, path, (lanes,)), dk.DEVICE)
        assert reason in str(answer)


def test_keys_that_are_transposed_have_panels_of_two_lanes_or_more():
    spaces = [
        (kernel, space)
        for kernel in map(read, dk.kernels("turned"))
        for space in template.decision_space(kernel, dk.DEVICE).variants
        if space.default.attention is not None
    ]
    assert spaces
    for kernel, space in spaces:
        narrow = with_knob(space.default, "attention.lanes", 1)
        answer = template.plan(kernel, narrow, dk.DEVICE)
        assert "two lanes or more" in str(answer)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "are no JSON"),
        ("[]", "has not the fields"),
        ('{"phases": []}', "has not the fields"),
    ],
)
def test_text_that_is_no_decisions_is_refused(text, reason):
    with pytest.raises(DecisionsError, match=reason):
        from_json(Decisions, text)


def test_a_value_of_another_type_is_refused_by_its_place():
    _, decisions = decided("softmax")
    data = json.loads(to_json(decisions))
    data["phases"][0]["nests"][0]["lanes"] = "16"
    with pytest.raises(DecisionsError, match=r"phases\[0\].nests\[0\].lanes is '16', not int"):
        from_json(Decisions, json.dumps(data))


def test_a_plan_is_a_page():
    kernel, decisions = decided("product")
    page = str(template.plan(kernel, decisions, dk.DEVICE))
    assert "register tile of" in page
    assert "strips of 32" in page
