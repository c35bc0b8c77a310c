"""Machines of one kind that share a batch; what one of them loses, the others measure."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from tvm.target import Target

from tvm_stitch.errors import StitchError

from ..log import DeviceKey
from .crew import Crew
from .machine import Lost
from .outcome import PACE, PATIENCE, Outcome, Pace, Patience
from .rpc_address import NoTracker
from .rpc_machine import Tracker
from .subject import Subject

T = TypeVar("T")


class Fleet:
    """The crews of a tracker's machines: measures as a Crew does. Leaving it ends them.

    Machines that become free later join at the next kernel.
    """

    def __init__(
        self,
        tracker: Tracker,
        target: Target,
        threads: int,
        device: DeviceKey,
        pace: Pace = PACE,
        patience: Patience = PATIENCE,
    ) -> None:
        self._tracker, self._device = tracker, device
        self._target, self._threads = target, threads
        self.pace, self._patience = pace, patience
        self.crews: list[Crew] = []
        self._usual_ns: dict[int, float] = {}
        self._task: tuple[Subject, int] | None = None

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        for crew in self.crews:
            crew.close()
        self.crews = []

    @property
    def usual_ns(self) -> float:
        """What the threads of one machine take to meet: they are of one kind."""
        return self._usual_ns.get(self._threads, math.inf)

    def take(self, subject: Subject, seed: int) -> None:
        """Turn to another subject. Raises: StitchError if there is no machine."""
        self._task = (subject, seed)
        while crew := self._lent():
            self.crews.append(crew)
        self._each([(crew, partial(crew.take, subject, seed)) for crew in self.crews])
        self._wait_for_one()

    def renew(self) -> None:
        """End the workers of all machines: what is measured next is so in new processes."""
        self._each([(crew, crew.renew) for crew in self.crews])

    def measure(self, decisions: Sequence[Any], pace: Pace | None = None) -> list[Outcome]:
        """Return an outcome for each of some decisions, in their order.

        Raises: StitchError if no machine is left.
        """
        found: dict[Any, Outcome] = {}
        lost: Counter[Any] = Counter()
        while left := [each for each in decisions if each not in found]:
            self._wait_for_one()
            crews = self.crews[: len(left)]
            shares = [left[n :: len(crews)] for n in range(len(crews))]
            jobs = [(c, partial(c.measure, s, pace)) for c, s in zip(crews, shares, strict=True)]
            told = self._each(jobs)
            found.update((each.decisions, each) for outcomes in told for each in outcomes)
            lost.update(each for each in left if each not in found)
            tries = self._patience.tries
            error = f"{tries} machines were lost over it"
            found.update({d: Outcome(d, error=error) for d, n in lost.items() if n >= tries})
        return [found[each] for each in decisions]

    def _each(self, jobs: Sequence[tuple[Crew, Callable[[], T]]]) -> list[T]:
        """Return what crews do side by side, without those whose machine is lost meanwhile."""
        told, gone = [], []
        with ThreadPoolExecutor(max(1, len(jobs))) as pool:
            for crew, future in [(crew, pool.submit(do)) for crew, do in jobs]:
                try:
                    told.append(future.result())
                except Lost:
                    gone.append(crew)
        for crew in gone:
            self.crews.remove(crew)
            crew.close()
        return told

    def _wait_for_one(self) -> None:
        end = time.monotonic() + self._patience.join
        while not self.crews:
            if (crew := self._lent()) is not None:
                self.crews.append(crew)
                self._each([(crew, partial(crew.take, *self._task))])
            elif time.monotonic() > end:
                key = self._tracker.key
                rule = f"has no server of {key} that is free"
                remedy = f"start one: tvm-stitch serve --tracker HOST:PORT --key {key}"
                raise StitchError(self._tracker, rule, remedy)
            else:
                time.sleep(0.5)

    def _lent(self) -> Crew | None:
        try:
            machine = self._tracker.lend()
        except NoTracker:
            if self.crews:  # those who have a session need it no more
                return None
            raise
        if machine is None:
            return None
        try:
            machine.check(self._target, self._threads, self._device)
        except Lost:
            return None
        machine.usual_ns = self._usual_ns
        shared = (self._target, self._threads, self._threads, self.pace, self._patience)
        return Crew(*shared, machine)
