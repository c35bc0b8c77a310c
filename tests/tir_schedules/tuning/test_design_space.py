"""The design space: traces annotate decisions, and say the same ones when they are replayed."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace
from tvm_ffi import structural_equal

from support.toy_backend import SerialLoops
from support.tuning.kernels import KERNELS, device, softmax
from tir_schedules.backend import backend, registered
from tir_schedules.decisions import DecisionsError, knob, knobs, with_knob
from tir_schedules.tuning.candidates import Candidates
from tir_schedules.tuning.design_space import (
    KNOB,
    VARIANT,
    annotate,
    decisions_of,
    design_space,
    read_annotations,
)


def candidates(name: str) -> Candidates:
    return Candidates.of(KERNELS[name](), device())


def replayed(trace: Trace, made: Candidates) -> object:
    """Return the decisions of a trace that went through JSON to a fresh schedule."""
    again = Schedule(made.func)
    Trace.apply_json_to_schedule(json.loads(json.dumps(_plain(trace.as_json()))), again)
    decided = decisions_of(type(made.default), again)
    assert made.decisions(again) == decided
    return decided


def _plain(part: object) -> object:
    if isinstance(part, int | float | str | None):
        return part
    if isinstance(part, tirx.IntImm | tirx.FloatImm):
        return part.value
    return [_plain(each) for each in part]


@pytest.mark.parametrize("name", KERNELS)
def test_the_cost_models_decisions_come_first(name):
    made = candidates(name)
    spaces = design_space(made.func, made.space)
    defaults = [variant.default for variant in made.space.variants]
    assert [made.decisions(schedule) for schedule in spaces] == defaults
    assert defaults[0] == backend(device()).default_decisions(made.kernel, device())


@pytest.mark.long(every=6)
@pytest.mark.parametrize("name", KERNELS)
def test_every_candidate_of_every_knob_replays_exactly(name):
    made = candidates(name)
    for variant in made.space.variants:
        for each in variant.knobs:
            for candidate in each.candidates:
                decided = with_knob(variant.default, each.path, candidate)
                schedule = Schedule(made.func)
                annotate(schedule, variant, decided)
                assert replayed(schedule.trace, made) == decided


@pytest.mark.parametrize("name", KERNELS)
def test_a_replayed_kernel_is_the_one_that_is_decided_without_a_trace(name):
    made, template = candidates(name), backend(device())
    for schedule in design_space(made.func, made.space):
        sampled = Schedule(made.func, seed=11)
        Trace(schedule.trace.insts, {}).apply_to_schedule(sampled, remove_postproc=True)
        decided = made.decisions(sampled)
        plan, again = made.plan(decided), made.plan(replayed(sampled.trace, made))
        if isinstance(plan, str):
            assert again == plan
            continue
        fresh = template.plan(template.read(made.func), decided, device())
        emitted = template.emit(again, made.func)
        assert structural_equal(emitted, template.emit(fresh, made.func))


def test_samples_differ_from_the_default_in_a_few_knobs():
    made = candidates("softmax")
    (schedule, *_) = design_space(made.func, made.space)
    usual, changed = knobs(made.default), []
    for seed in range(1, 60):
        sampled = Schedule(made.func, seed=seed)
        Trace(schedule.trace.insts, {}).apply_to_schedule(sampled, remove_postproc=True)
        drawn = knobs(made.decisions(sampled))
        changed.append(sum(drawn[path] != value for path, value in usual.items()))
    assert 2 < sum(changed) / len(changed) < 4


def test_traces_schedule_nothing():
    made = candidates("softmax")
    for schedule in design_space(made.func, made.space):
        kinds = {instruction.kind.name for instruction in schedule.trace.insts}
        assert kinds == {"GetSBlock", "SampleCategorical", "Annotate"}


VARIANT_TEXT = '{"default": {"parallel": true}, "knobs": {"parallel": [true, false]}}'


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="none"),
        pytest.param({VARIANT: "{"}, id="no-json"),
        pytest.param({VARIANT: "[]"}, id="list"),
        pytest.param({VARIANT: '{"default": {}, "knobs": {}}'}, id="no-fields"),
        pytest.param({VARIANT: '{"default": {}, "knobs": []}'}, id="knobs-are-a-list"),
        pytest.param({VARIANT: VARIANT_TEXT}, id="knob-not-sampled"),
        pytest.param({VARIANT: VARIANT_TEXT, f"{KNOB}parallel": 2}, id="no-such-candidate"),
        pytest.param({VARIANT: VARIANT_TEXT, f"{KNOB}parallel": "a"}, id="no-number"),
        pytest.param({VARIANT: VARIANT_TEXT, f"{KNOB}parallel": 0}, id="fields-missing"),
    ],
)
def test_annotations_that_are_no_decisions_are_refused(annotations):
    made = candidates("softmax")
    with pytest.raises(DecisionsError):
        read_annotations(type(made.default), annotations)


@dataclass(frozen=True)
class UnrollDecisions:
    unroll: int = knob(1)


@dataclass(frozen=True)
class UnrollKnob:
    path: str = "unroll"
    candidates: tuple[int, ...] = (1, 2, 4)


@dataclass(frozen=True)
class OneVariant:
    default: UnrollDecisions = UnrollDecisions()
    knobs: tuple[UnrollKnob, ...] = (UnrollKnob(),)


@dataclass(frozen=True)
class OneSpace:
    variants: tuple[OneVariant, ...] = (OneVariant(),)


class Unrolled(SerialLoops):
    """A backend with one decision."""

    def decision_space(self, kernel: object, device: object) -> OneSpace:
        return OneSpace()


def test_any_backend_has_a_design_space():
    with registered("llvm", Unrolled()):
        made = Candidates.of(softmax(), device())
        schedule = Schedule(made.func)
        annotate(schedule, made.space.variants[0], UnrollDecisions(4))
        assert decisions_of(UnrollDecisions, schedule) == UnrollDecisions(4)
        assert replayed(schedule.trace, made) == UnrollDecisions(4)
