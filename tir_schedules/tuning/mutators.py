"""How the search moves in a space of decisions: stock mutators leave plain categoricals alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from .knob_trace import SampledKnob, sampled_knobs
from .policy import POLICY


def mutators(seed: int) -> dict[ms.mutator.Mutator, float]:
    """Return the mutators of our spaces, and how often each is asked."""
    rng = random.Random(seed)
    return {MoveKnob(rng): POLICY.knob, MoveAlike(rng): POLICY.alike}


@derived_object
class MoveKnob(ms.mutator.PyMutator):
    """Give one knob another candidate; a size mostly the next larger or smaller one."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        pass

    def apply(self, trace: Trace, _: int) -> Trace | None:
        knobs = sampled_knobs(trace)
        if not knobs:
            return None
        knob = self._rng.choice(knobs)
        return moved(trace, knob, self._rng.choice(self._places(knob)))

    def clone(self) -> MoveKnob:
        return MoveKnob(random.Random(self._rng.getrandbits(64)))

    def _places(self, knob: SampledKnob) -> Sequence[int]:
        near = neighbours(knob)
        if near and self._rng.random() < POLICY.near:
            return near
        return [at for at in range(len(knob.candidates)) if at != knob.at]


@derived_object
class MoveAlike(ms.mutator.PyMutator):
    """Give all knobs of a name the same candidate, where they have it: the lanes of all nests."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        pass

    def apply(self, trace: Trace, _: int) -> Trace | None:
        knobs = sampled_knobs(trace)
        names = sorted({k.name for k in knobs if sum(k.name == o.name for o in knobs) > 1})
        if not names:
            return None
        name = self._rng.choice(names)
        alike = [knob for knob in knobs if knob.name == name]
        value = self._rng.choice(self._rng.choice(alike).candidates)
        for knob in alike:
            if value in knob.candidates:
                trace = moved(trace, knob, knob.candidates.index(value))
        return trace

    def clone(self) -> MoveAlike:
        return MoveAlike(random.Random(self._rng.getrandbits(64)))


def neighbours(knob: SampledKnob) -> list[int]:
    """Return the places of the next larger and smaller candidates of a size, none of others."""
    if not all(type(value) is int for value in knob.candidates):
        return []
    order = sorted(range(len(knob.candidates)), key=lambda at: knob.candidates[at])
    here = order.index(knob.at)
    return [order[at] for at in (here - 1, here + 1) if 0 <= at < len(order)]


def moved(trace: Trace, knob: SampledKnob, at: int) -> Trace:
    """Return the trace with another candidate of a knob."""
    return trace.with_decision(knob.sampled_by, at, remove_postproc=True)
