"""A worker some of whose candidates are bad: which and how, their number of tasks says."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from tvm_stitch.profiling.answering import answer
from tvm_stitch.tuning.measure.worker import Bench

CRASHES, HANGS, CRASHES_LATER, IS_WRONG, CRASHES_TIMED = 1001, 1002, 1003, 1004, 1005


class BadBench(Bench):
    def load(self, message: dict) -> dict:
        self._bad: dict[int, int] = {}
        return super().load(message)

    def build(self, message: dict) -> dict:
        for number, text in message["candidates"].items():
            tasks = self._bad[int(number)] = json.loads(text)["tasks"]
            if tasks == CRASHES:
                os.kill(os.getpid(), signal.SIGSEGV)
            if tasks == HANGS:
                time.sleep(3600)
        return super().build(message)

    def check(self, message: dict) -> dict:
        bad, usual = self._bad[message["number"]], self._usual
        if bad == CRASHES_LATER:
            os.kill(os.getpid(), signal.SIGSEGV)
        if bad == IS_WRONG:
            self._usual = [array + 1 for array in usual]
        told = super().check(message)
        self._usual = usual or self._usual
        return told

    def time(self, message: dict) -> dict:
        if CRASHES_TIMED in self._bad.values():
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().time(message)


def main(_name: str, *ends: str) -> None:
    bench = BadBench()
    actions = (bench.load, bench.build, bench.check, bench.time, bench.drop)
    answer({action.__name__: action for action in actions}, *ends)


if __name__ == "__main__":
    main(*sys.argv[1:])
