"""MetaSchedule's evolutionary search over one kernel's decisions, ranked by a model of the caller.

Source of the method: TVM MetaSchedule (NeurIPS 2022), section 4.2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from tvm.ir import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.tune_context import _ffi_api
from tvm.target import Target

from .candidates import Candidates
from .policy import POLICY, SearchPolicy

Score = Callable[[Sequence[Any]], Sequence[float]]  # of decisions: more is better, 0 at least
_ENDLESS = 1 << 30  # trials: who asks for candidates counts them
_logger = logging.getLogger("tvm_stitch.tuning")


class Search:
    """Proposes decisions to measure, and hears what they took."""

    def __init__(
        self,
        candidates: Candidates,
        target: Target,
        score: Score,
        seed: int,
        policy: SearchPolicy = POLICY,
    ) -> None:
        self._candidates = candidates
        self._mod = IRModule({"main": candidates.func.with_attr("global_symbol", "main")})
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self._mod)
        self._proposed: dict[Any, Schedule] = {}
        strategy = ms.search_strategy.EvolutionarySearch(
            population_size=policy.population,
            init_min_unmeasured=1,
            genetic_num_iters=policy.rounds,
            eps_greedy=policy.random,
        )
        self._context = _Context(self._mod, target, candidates.generator(seed), strategy, seed)
        self._context.pre_tuning(
            max_trials=_ENDLESS,
            num_trials_per_iter=policy.batch,
            design_spaces=candidates.schedules,
            database=self._database,
            cost_model=_Ranked(candidates, score),
        )

    def defaults(self) -> list[Any]:
        """Return what the cost model decides for each variant, its own choice first."""
        made = self._candidates
        return self._new((each, made.decisions(each)) for each in made.schedules)

    def propose(self) -> list[Any]:
        """Return decisions that were not proposed before, none where the space is exhausted."""
        found = self._context.generate_measure_candidates() or ()
        return self._new((each.sch, self._candidates.decisions(each.sch)) for each in found)

    def tell(self, decisions: Any, time: float) -> None:
        """Hear what decisions of the space took, in any unit: the best are mutated further."""
        schedule = self._proposed.get(decisions) or self._candidates.schedule(decisions)
        if schedule is not None:
            self._proposed[decisions] = schedule
            record = ms.database.TuningRecord(schedule.trace, self._workload, [time])
            self._database.commit_tuning_record(record)

    def _new(self, found: Iterable[tuple[Schedule, Any]]) -> list[Any]:
        fresh = []
        for schedule, decisions in found:
            if decisions in self._proposed or isinstance(self._candidates.plan(decisions), str):
                continue
            self._proposed[decisions] = schedule
            fresh.append(decisions)
        return fresh


class _Context(ms.TuneContext):
    """A TuneContext without the tensor intrinsics, whose import takes 20 s: we name none."""

    def __init__(
        self,
        mod: IRModule,
        target: Target,
        generator: ms.space_generator.SpaceGenerator,
        strategy: ms.search_strategy.SearchStrategy,
        seed: int,
    ) -> None:
        logged = ms.logging.get_logging_func(_logger)
        self.__init_handle_by_constructor__(
            _ffi_api.TuneContext, mod, target, generator, strategy, "main", 1, seed, logged
        )
        _ffi_api.TuneContextInitialize(self)


@derived_object
class _Ranked(ms.cost_model.PyCostModel):
    """What the caller's model says of candidates; the caller teaches it."""

    def __init__(self, candidates: Candidates, score: Score) -> None:
        super().__init__()
        self._candidates, self._score = candidates, score

    def predict(self, context: ms.TuneContext, candidates: list[ms.MeasureCandidate]) -> np.ndarray:
        scores = self._score([self._candidates.decisions(each.sch) for each in candidates])
        return np.asarray(scores, "float64")
