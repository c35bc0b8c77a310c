"""One kernel's way to its best decisions: defaults, what is known, search, descent, confirmation.

The search ranks the space by the model and measures what is predicted best: of an evolution, which
sees some hundred candidates, and of a walk from the best, a knob at a time, by what the model says.
Where it finds no more it descends from the winner by measuring; the best few are then timed once
more, for longer: of many that are timed shortly the luckiest leads.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tvm.target import Target

from tir_schedules.tuning.search import Search

from .measure.confirmed import above_noise
from .measure.outcome import Outcome
from .model.gains import GainModel, gain_of
from .model.rows import Row
from .pairs import Pairs
from .policy import POLICY, KernelPolicy
from .records import features_of
from .tasks import Task

NEW, SEARCH, DESCENT, CONFIRM, DONE = "new", "search", "descent", "confirm", "done"


class KernelTuner:
    """Proposes batches of decisions for a task and learns from what they took."""

    def __init__(
        self,
        task: Task,
        target: Target,
        model: GainModel,
        seed: int,
        batch: int,
        policy: KernelPolicy = POLICY.kernel,
    ) -> None:
        self.task, self.stage, self._policy = task, NEW, policy
        self._base = self._model = model
        self._seed, self._batch = seed, batch
        self._candidates = task.candidates
        self._search = Search(task.candidates, target, self._scores, seed)
        self._pairs = Pairs(task.candidates, seed)
        self._gains: dict[Any, float] = {}
        self._seen: dict[Any, list[float]] = {}
        self._tried: set[Any] = set()
        self._confirmed: dict[Any, float] = {}
        self._stale = 0
        self._rows: dict[Any, Row] = {}
        self._likely: list[Any] = []
        self.default_ns = 2.0 ** self.row(task.candidates.default)["predicted"]
        self._is_measured = False

    @property
    def best(self) -> Any:
        """The best decisions so far: those that were confirmed, once some were."""
        known = self._confirmed or self._gains or {self._candidates.default: 0.0}
        return max(known, key=known.__getitem__)

    @property
    def gain(self) -> float:
        """The gain of the best decisions in powers of two, at least that of the default: 0."""
        return max(0.0, max((self._confirmed or self._gains).values(), default=0.0))

    @property
    def ns(self) -> float:
        """What all calls of the kernel take in one run of the model, by the best decisions."""
        return self.task.calls * self.default_ns * 2.0**-self.gain

    @property
    def timed(self) -> int:
        """How many candidates have a time, those that a log told of among them."""
        return len(self._gains)

    @property
    def promise(self) -> float:
        """What is predicted to be gained yet of the model's time, in ns."""
        if self.stage == DONE:
            return 0.0
        hope = self._policy.hope if self.stage in (NEW, SEARCH) else self._policy.better
        return self.ns * (1.0 - 2.0 ** -(hope * 0.5**self._stale))

    @property
    def _is_fresh(self) -> bool:
        """Whether one of the batches before found something better."""
        descends = self.stage == DESCENT
        return self._stale < (self._policy.patient if descends else self._policy.stale)

    def row(self, decisions: Any) -> Row:
        """Return what the model learns from of decisions that have a plan."""
        if decisions not in self._rows:
            self._rows[decisions] = features_of(self._candidates, decisions)
        return self._rows[decisions]

    def recall(self, known: Iterable[tuple[Any, float, float]]) -> None:
        """Take up decisions of the space, with their ns and those of the default."""
        for decisions, ns, default_ns in known:
            self._tried.add(self._candidates.same(decisions))
            self._take(decisions, ns, default_ns)
        self._learn()

    def suggest(self, likely: Iterable[Any]) -> None:
        """Take up decisions of the space that are likely good, to be measured first."""
        self._likely += likely

    def finish(self) -> list[Any]:
        """Return what is measured last, whatever is left to find; none if that was measured."""
        if self.stage in (NEW, DONE):
            return []
        self.stage = CONFIRM
        return self.finalists()

    def next(self) -> list[Any]:
        """Return decisions to measure, none once there is nothing more to find.

        The defaults of all variants, what was suggested and what is likely or near come first. With
        each batch the best so far are timed anew.
        """
        found = self._next()
        return found if self.stage in (CONFIRM, DONE) else [*found, *self._leaders(len(found))]

    def _leaders(self, count: int) -> list[Any]:
        order = sorted(self._gains, key=self._gains.__getitem__, reverse=True)
        better = (each for each in order if self._gains[each] > self._policy.better)
        return [*itertools.islice(better, self._policy.again)] if count else []

    def _next(self) -> list[Any]:
        if self.stage == NEW:
            self.stage = SEARCH
            if found := self._untried([*self._search.defaults(), *self._likely, *self._first()]):
                return found
        if self.stage == SEARCH:
            if self._is_fresh:
                walked = self._uphill(self._policy.walked)
                found = self._untried([*walked, *self._paired(), *self._search.propose()])
                if found:
                    return found
            self.stage, self._stale = DESCENT, 0
        if self.stage == DESCENT:
            found = self._downhill() if self._is_fresh else []
            if found:
                return found
            self.stage = CONFIRM
        if self.stage == CONFIRM:
            return self.finalists()
        return []

    def finalists(self) -> list[Any]:
        """Return the default and the few best, to be timed once more."""
        order = sorted(self._gains, key=self._gains.__getitem__, reverse=True)
        first = order[: self._policy.confirmed]
        better = (decisions for decisions in first if self._gains[decisions] > 0.0)
        return [*dict.fromkeys((self._candidates.default, *better))]

    def pooled(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Return what was confirmed with the gains of all libraries that it was timed in.

        Those that the confirmation itself shows no gain of, and those that were timed in a few
        alone, keep what it shows.
        """
        shown = above_noise(outcomes, self._candidates.default, self._policy.better)
        return [self._pooled(each) if each.decisions in shown else each for each in outcomes]

    def _pooled(self, outcome: Outcome) -> Outcome:
        seen = self._seen.get(outcome.decisions, ())
        if len(seen) < self._policy.pooled or outcome.decisions == self._candidates.default:
            return outcome
        gain = statistics.median([*seen, outcome.log_gain])
        return replace(outcome, ns=outcome.default_ns * 2.0**-gain)

    def hear(self, outcomes: Sequence[Outcome]) -> None:
        """Learn what decisions took."""
        before = self.best
        good = [each for each in outcomes if each.ns is not None]
        for each in good:
            self._take(each.decisions, each.ns, each.default_ns)
        if self.stage == CONFIRM:
            self._confirmed = above_noise(good, self._candidates.default, self._policy.better)
            self.stage = DONE
            return
        least = max(0.0, self._gains.get(before, 0.0)) + self._policy.better
        self._stale = 0 if self.gain > least else self._stale + 1
        self._learn()

    def _take(self, decisions: Any, ns: float, default_ns: float) -> None:
        self.default_ns = min(self.default_ns, default_ns) if self._is_measured else default_ns
        self._is_measured = True
        seen = self._seen.setdefault(decisions, [])
        seen.append(gain_of(ns, default_ns))
        self._gains[decisions] = statistics.mean(seen)
        if len(seen) == 1:
            self._pairs.tell(decisions)
            self._search.tell(decisions, ns / default_ns)

    def _learn(self) -> None:
        if self._gains:
            rows = [self.row(decisions) for decisions in self._gains]
            self._model = self._base.refined(rows, [*self._gains.values()], self._seed)

    def _first(self) -> list[Any]:
        """Return what a model of other kernels says is best, without one what is near the default.

        At random: the evaluator has decided the default, and may be wrong about what is beside it.
        """
        if self._model.booster is not None:
            return self._uphill(self._policy.first)
        policy = self._policy
        return self._pairs.around(self._candidates.default, policy.first, policy.moved)

    def _paired(self) -> list[Any]:
        """Return what is near the best and has values together that were not tried so."""
        policy = self._policy
        near = self._pairs.around(self.best, policy.sampled, policy.moved)
        return self._pairs.newest(self._hopeful(self._untried(near, mark=False)), policy.paired)

    def _hopeful(self, decisions: Sequence[Any]) -> list[Any]:
        """Return those that are not predicted far behind the best, what is best first."""
        best, *scores = self._scores([self.best, *decisions])
        known = dict(zip(decisions, scores, strict=True))
        hopeful = (each for each in decisions if known[each] * self._policy.hopeless > best)
        return sorted(hopeful, key=known.__getitem__, reverse=True)

    def _uphill(self, count: int) -> list[Any]:
        """Return the best of what a walk from the best sees, by what the model says."""
        if self._model.booster is None:  # there is no gain that it learnt of
            return []
        at = self.best
        (score,) = self._scores([at])
        seen: dict[Any, float] = {}
        for _ in range(self._policy.steps):
            near = self._untried(self._candidates.neighbours(at), mark=False)
            seen |= zip(near, self._scores(near), strict=True)
            at = max(near, key=seen.__getitem__, default=at)
            if seen.get(at, score) <= score:
                break
            score = seen[at]
        return sorted(seen, key=seen.__getitem__, reverse=True)[:count]

    def _downhill(self) -> list[Any]:
        """Return what differs from the best in one knob, what is predicted best first."""
        found = self._untried(self._candidates.neighbours(self.best), mark=False)
        return self._untried(self._hopeful(found)[: self._batch])

    def _untried(self, decisions: Iterable[Any], mark: bool = True) -> list[Any]:
        """Return those with a plan that none was tried of, each once."""
        made, found = self._candidates, {}
        for each in decisions:
            if isinstance(made.plan(each), str):
                continue
            same = made.same(each)
            if same not in self._tried:
                found.setdefault(same, each)
        if mark:
            self._tried.update(found)
        return [*found.values()]

    def _scores(self, decisions: Sequence[Any]) -> Sequence[float]:
        if not decisions:
            return []
        return 2.0 ** self._model.predict([self.row(each) for each in decisions])
