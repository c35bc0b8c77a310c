"""A process that builds candidates of one subject, checks them and times them in turns."""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time

import numpy as np
import tvm

from tvm_stitch.profiling.answering import answer
from tvm_stitch.profiling.calibration.meeting import Meeting

from .builders import BUILDERS, Call
from .outcome import Pace


def _done() -> None:
    """A CPU has run a call when it returns."""


class Bench:
    """The candidates of one subject, by their numbers; 0 is what the cost model decides."""

    def __init__(self) -> None:
        self._meetings: dict[int, Meeting] = {}
        self._meeting = Meeting()

    def load(self, message: dict) -> dict:
        """Take a kernel, or a part of a graph: nothing of the one before is left."""
        self._calls: dict[int, Call] = {}
        gc.collect()
        self._builder = BUILDERS[message["kind"]](message)
        arrays = self._builder.arrays(message["seed"])
        home = self._builder.home
        usual = [tvm.runtime.tensor(a, home) for a in arrays]
        copied = range(len(arrays)) if message["copied"] is None else message["copied"]
        others = (
            {n: tvm.runtime.tensor(arrays[n], home) for n in copied}
            for _ in range(message["sets"] - 1)
        )
        self._sets = [
            usual,
            *([other.get(n, usual[n]) for n in range(len(arrays))] for other in others),
        ]
        self._turn = 0
        self._wait, threads = (_done, message["threads"]) if home == tvm.cpu() else (home.sync, 1)
        if threads not in self._meetings:
            self._meetings[threads] = Meeting.of(threads)
        self._meeting = self._meetings[threads]
        self._usual: list[np.ndarray] = []
        return {}

    def build(self, message: dict) -> dict:
        """Build candidates as one library; refuse those that have no plan."""
        refused, calls = self._builder.build(message["candidates"])
        self._calls.update(calls)
        return {"refused": refused}

    def check(self, message: dict) -> dict:
        """Run a candidate once; say how its results are not those of number 0."""
        number = message["number"]
        got = self._builder.run(self._calls[number], self._sets[0])
        if number == 0:
            self._usual = got
            return {"wrong": None}
        return {"wrong": self._builder.wrong(got, self._usual)}

    def time(self, message: dict) -> dict:
        """Return ns of a call for each candidate and round, each round in the order that is told.

        Every call takes the next set of buffers. What is slow in a round is not timed again. A
        round begins when threads are as near to each other as usual; what is usual is told on.
        """
        self._meeting.usual_ns = message["usual_ns"] or math.inf
        found: dict[int, list[float]] = {number: [] for number in message["rounds"][0]}
        pace = Pace(**message["pace"])
        slow: set[int] = set()
        for order in message["rounds"]:
            self._meeting.settle()
            for number in order:
                if number not in slow:
                    found[number].append(self._slice(number, pace))
            usual = pace.slow * found[0][-1]
            slow |= {number for number, times in found.items() if times[-1] > usual}
        return {"ns": found, "usual_ns": self._meeting.usual_ns}

    def drop(self, message: dict) -> dict:
        """Forget candidates, and unload what was built of them alone."""
        for number in message["numbers"]:
            self._calls.pop(number, None)
        gc.collect()
        return {}

    def _slice(self, number: int, pace: Pace) -> float:
        """Return ns a call over about so long, after warm-up."""
        call, sets, clock = self._calls[number], self._sets, time.perf_counter_ns
        warm_until, first, start = clock() + pace.warm_ns, self._turn, clock()
        while self._turn == first or clock() < warm_until:
            call(*sets[self._turn % len(sets)])
            self._turn += 1
        self._wait()
        each = max(1.0, (clock() - start) / (self._turn - first))
        inner = max(1, math.ceil(pace.clock_ns / each))
        samples = []
        for _ in range(max(3, math.ceil(pace.slice_ns / each / inner))):
            start = clock()
            for at in range(inner):
                call(*sets[(self._turn + at) % len(sets)])
            self._wait()
            samples.append((clock() - start) / inner)
            self._turn += inner
        return statistics.median(samples)


def main(_name: str, *ends: str) -> None:
    bench = Bench()
    actions = (bench.load, bench.build, bench.check, bench.time, bench.drop)
    answer({action.__name__: action for action in actions}, *ends)


if __name__ == "__main__":
    main(*sys.argv[1:])
