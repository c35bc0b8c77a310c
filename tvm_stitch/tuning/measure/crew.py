"""Warm workers that build candidates side by side and time them one worker at a time.

A candidate that crashes its worker, or that takes it too long, is one failed candidate: a new
worker takes the place of the old and the others are built again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from tvm.target import Target

from tvm_stitch.profiling.calibration.meeting import POLICY as MEETING
from tvm_stitch.profiling.child import Died

from .machine import LocalMachine, Machine, Worker
from .outcome import PACE, PATIENCE, Outcome, Pace, Patience, outcome_of
from .subject import Subject


class Crew:
    """Workers of one machine, for one kernel after the other. Leaving it ends them.

    Its methods raise Lost if the machine is.
    """

    def __init__(
        self,
        target: Target,
        threads: int,
        workers: int,
        pace: Pace = PACE,
        patience: Patience = PATIENCE,
        machine: Machine | None = None,
    ) -> None:
        self._target, self._threads = target, threads
        self._pace = self.pace = pace
        self._patience, self._machine = patience, machine or LocalMachine()
        self.children: list[Worker | None] = [None] * workers
        self._task: dict[str, Any] = {}
        self._starts = 0
        # Workers end with the thread that started them: these live as long as the crew.
        self._pool = ThreadPoolExecutor(workers)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and remove their files; more than once does no harm."""
        self.renew()
        self._pool.shutdown()
        self._machine.close()

    @property
    def usual_ns(self) -> float:
        """What the threads take to meet, as far as that was seen (Meeting)."""
        return self._machine.usual_ns.get(self._threads, math.inf)

    def take(self, subject: Subject, seed: int) -> None:
        """Turn to another subject."""
        self._subject = subject
        self._rng = random.Random(seed)
        sets, copied = subject.copies(self.pace)
        self._task = {
            "do": "load",
            "kind": subject.kind,
            "target": str(self._target),
            "threads": self._threads,
            "seed": seed,
            "sets": sets,
            "copied": copied,
            **subject.message(),
        }
        list(self._pool.map(self._loaded, range(len(self.children))))

    def renew(self) -> None:
        """End the workers: what is measured next is so in new processes."""
        for child in self.children:
            if child is not None:
                child.kill()

    def measure(self, decisions: Sequence[Any], pace: Pace | None = None) -> list[Outcome]:
        """Return an outcome for each of some decisions, in their order."""
        self._pace = pace or self.pace
        count = len(self.children)
        shares = [decisions[n::count] for n in range(count)]
        built = list(self._pool.map(self._built, range(count), shares))
        found: dict[Any, Outcome] = {}
        for place, (good, failed) in enumerate(built):
            found.update({d: Outcome(d, error=reason) for d, reason in failed.items()})
            found.update(self._timed(place, good))
        return [found[each] for each in decisions]

    def _loaded(self, place: int) -> Worker:
        """Return a worker that has the kernel and its default, built and run."""
        child = self.children[place]
        if not self._is_alive(place):
            self._starts += 1
            child = self._machine.start(f"worker{self._starts}")
            self.children[place] = child
        child.resume()
        child.ask(self._task, self._patience.start)
        default = {0: self._subject.text(self._subject.default)}
        child.ask({"do": "build", "candidates": default}, self._patience.build)
        child.ask({"do": "check", "number": 0}, self._patience.run)
        return child

    def _is_alive(self, place: int) -> bool:
        child = self.children[place]
        return child is not None and child.alive

    def _ready(self, place: int) -> Worker:
        return self.children[place] if self._is_alive(place) else self._loaded(place)

    def _built(self, place: int, decisions: Sequence[Any]) -> tuple[dict[int, Any], dict[Any, str]]:
        """Return candidates that are built and right by their numbers, and why others are not."""
        numbered = dict(enumerate(decisions, 1))
        refused = self._build(place, numbered)
        if refused is None:  # one of them ends the worker
            failed = self._built_apart(place, numbered)
        else:
            failed = {numbered.pop(number): reason for number, reason in refused.items()}
        for number in [*numbered]:
            if number in numbered and (wrong := self._check(place, number)) is not None:
                failed[numbered.pop(number)] = wrong
                if not self._is_alive(place):
                    failed |= self._built_again(place, numbered)
        return numbered, failed

    def _built_apart(self, place: int, numbered: dict[int, Any]) -> dict[Any, str]:
        """Build each by itself, then the good ones; take out the others and return why."""
        failed = {}
        for number, each in [*numbered.items()]:
            alone = self._build(place, {number: each})
            if alone is None:
                failed[numbered.pop(number)] = "its build ends the process, or does not end"
            elif alone:
                failed[numbered.pop(number)] = alone[number]
        return failed | self._built_again(place, numbered)

    def _built_again(self, place: int, numbered: dict[int, Any]) -> dict[Any, str]:
        """Build for a new worker what was good in another; take out what is not, and say why."""
        if self._build(place, numbered) is not None:
            return {}
        failed = dict.fromkeys(numbered.values(), "its build beside others ends the process")
        numbered.clear()
        return failed

    def _build(self, place: int, numbered: Mapping[int, Any]) -> dict[int, str] | None:
        """Return why candidates have no plan, None if the worker ended over them."""
        texts = {number: self._subject.text(each) for number, each in numbered.items()}
        message = {"do": "build", "candidates": texts}
        try:
            told = self._ready(place).ask(message, self._patience.build)
        except Died:
            return None
        return {int(number): reason for number, reason in told["refused"].items()}

    def _check(self, place: int, number: int) -> str | None:
        """Return how a candidate's results are not the default's, None if they are."""
        message = {"do": "check", "number": number}
        try:
            told = self._ready(place).ask(message, self._patience.run)
        except Died as death:
            return f"its run ends the process: {death}"
        return told["wrong"]

    def _timed(self, place: int, numbered: Mapping[int, Any]) -> dict[Any, Outcome]:
        """Time a worker's candidates beside the default while all others are stopped."""
        if not numbered:
            return {}
        others = [c for n, c in enumerate(self.children) if n != place and c is not None]
        for child in others:
            child.pause()
        rounds = []
        for _ in range(self._pace.rounds):
            order = [0, *numbered]
            self._rng.shuffle(order)
            rounds.append(order)
        usual_ns = self._machine.usual_ns.get(self._threads)
        message = {"do": "time", "rounds": rounds, "pace": asdict(self._pace), "usual_ns": usual_ns}
        try:
            patience = self._patience.run * (1 + len(numbered)) + MEETING.wait_s
            told = self._ready(place).ask(message, patience)
        except Died as death:
            if len(numbered) > 1:
                return self._timed_apart(place, numbered)
            reason = f"its run ends the process: {death}"
            return {each: Outcome(each, error=reason) for each in numbered.values()}
        finally:
            for child in others:
                child.resume()
        self._machine.usual_ns[self._threads] = told["usual_ns"]
        self._ready(place).ask({"do": "drop", "numbers": [*numbered]}, self._patience.run)
        ns = told["ns"]
        return {
            each: outcome_of(each, ns[str(number)], ns["0"]) for number, each in numbered.items()
        }

    def _timed_apart(self, place: int, numbered: Mapping[int, Any]) -> dict[Any, Outcome]:
        found = {}
        for number, each in numbered.items():
            if self._build(place, {number: each}) is None:
                found[each] = Outcome(each, error="its build ends the process, or does not end")
            else:
                found.update(self._timed(place, {number: each}))
        return found
