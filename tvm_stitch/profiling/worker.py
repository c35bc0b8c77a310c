"""One peer's process: prepares a model and times it."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from . import arrays
from .answering import answer
from .peer import PEERS, Job

_FIRST_RUN_SLOW_NS = 1_000_000_000
_ESTIMATE_NS = 200_000_000
_WARM_NS = 5_000_000
_QUEUE_NS = 5_000_000  # of calls to a GPU, behind which it is waited for: a wait takes some us


class Worker:
    """The model that was prepared last, and for each way to call it one call for each input set."""

    def __init__(self, name: str) -> None:
        self._peer = PEERS[name]
        self._calls: dict[str, list[Callable[[], object]]] = {}
        self._wait: Callable[[object], None] | None = None
        self._queued_ns = 0  # what a call in a queue took last
        # Results stay alive until their input set comes again, so outputs rotate as inputs do.
        self._held: list[object] = []
        # Peers that read inputs in place do not keep them (OpenVINO then reads freed memory).
        self._inputs: list[dict] = []

    def prepare(self, message: dict) -> dict:
        self._calls, self._wait, self._held, self._inputs = {}, None, [], []
        gc.collect()
        job = Job.from_json(message["job"])
        module = import_module(f"{__package__}.peers.{self._peer.module}")
        inputs = arrays.load(message["inputs"])
        start = time.perf_counter()
        session = module.prepare(job, self._peer.setting)
        copies = self._copies(inputs, message["sets"], arrays.aligned_copy)
        self._calls["resident"] = [session.bind(each) for each in copies]
        seconds = time.perf_counter() - start
        outputs = session.fetch(self._calls["resident"][0]())
        if hasattr(session, "wait"):
            self._wait, self._queued_ns = session.wait, _QUEUE_NS
            self._calls["call"] = [_whole(call, session.wait) for call in self._calls["resident"]]
        if hasattr(session, "bind_numpy"):
            # Rotating sets move four times the L3: both ways share them.
            several = message["sets"] > 1
            copies = copies if several else self._copies(inputs, 1, np.copy)
            self._calls["run"] = [session.bind_numpy(each) for each in copies]
        named = {str(index): value for index, value in enumerate(outputs)}
        return {
            "outputs": arrays.save(named, Path(job.workdir), self._peer.name),
            "facts": {"prepare_s": seconds, **session.facts},
            "estimates": {entry: self._estimate(entry) for entry in self._calls},
        }

    def measure(self, message: dict) -> dict:
        """Time up to `runs` calls in about `seconds`, after warm-up calls unless told not to."""
        entry = message["entry"]
        if message["warm"]:
            self._time(entry, 20, _WARM_NS)
        return {"ns": self._time(entry, message["runs"], int(message["seconds"] * 1e9))}

    def _estimate(self, entry: str) -> int:
        (first,) = self._time(entry, 1, _ESTIMATE_NS)
        return first if first > _FIRST_RUN_SLOW_NS else min(self._time(entry, 50, _ESTIMATE_NS))

    def _copies(self, inputs: dict, sets: int, copy: Callable) -> list[dict]:
        copies = [{name: copy(value) for name, value in inputs.items()} for _ in range(sets)]
        self._inputs += copies
        return copies

    def _time(self, entry: str, runs: int, limit_ns: int) -> list[int]:
        if entry == "resident" and self._wait is not None:
            return self._time_queues(runs, limit_ns)
        calls, samples = self._calls[entry], []
        held = self._held = [None] * len(calls)
        clock = time.perf_counter_ns
        end = clock() + limit_ns
        for number in range(runs):
            index = number % len(calls)
            call = calls[index]
            start = clock()
            result = call()
            stop = clock()
            samples.append(stop - start)
            held[index] = result
            if stop > end:
                break
        return samples

    def _time_queues(self, runs: int, limit_ns: int) -> list[int]:
        """Time calls that wait in a queue for the GPU: a sample is a call's share of a queue."""
        calls, samples, done = self._calls["resident"], [], 0
        held = self._held = [None] * len(calls)
        clock = time.perf_counter_ns
        end = clock() + limit_ns
        while done < runs and (not samples or clock() < end):
            count = min(max(1, _QUEUE_NS // self._queued_ns), runs - done)
            start = clock()
            for number in range(done, done + count):
                index = number % len(calls)
                held[index] = calls[index]()
            self._wait(held[(done + count - 1) % len(calls)])
            self._queued_ns = max(1, (clock() - start) // count)
            samples.append(self._queued_ns)
            done += count
        return samples


def _whole(call: Callable[[], object], wait: Callable[[object], None]) -> Callable[[], object]:
    def run() -> object:
        result = call()
        wait(result)
        return result

    return run


def main(name: str, *ends: str) -> None:
    worker = Worker(name)
    answer({"prepare": worker.prepare, "measure": worker.measure}, *ends)


if __name__ == "__main__":
    main(*sys.argv[1:])
