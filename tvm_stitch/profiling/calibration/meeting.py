"""How long threads take to meet, now: a hypervisor moves virtual CPUs between caches, for seconds.

Where two CPUs share no cache a barrier takes twice as long and more, and each has a way of its own
to memory: what is timed then and what is timed otherwise are of two machines.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from .cpu_kernels import parallel, phases
from .kernel_call import eager_device, kernel_call


@dataclass(frozen=True)
class MeetingPolicy:
    """`apart`: of the usual time, above it threads are apart; `busy`: above it other processes have
    the CPUs, and to wait is of no use. `wait_s`: at most, `pause_s` between two looks. `samples` of
    `calls` each, the least of which counts, in kernels of so many `rounds` of barriers.
    """

    apart: float = 1.5
    busy: float = 6.0
    wait_s: float = 60.0
    pause_s: float = 0.05
    samples: int = 20
    calls: int = 5
    rounds: int = 5

    def is_moved(self, now_ns: float, before_ns: float) -> bool:
        """Whether threads take so much longer to meet, or less long, that they lie elsewhere."""
        return not 1.0 / self.apart < now_ns / before_ns < self.apart


POLICY = MeetingPolicy()


class Meeting:
    """Waits until threads are as near to each other as they usually are, a minute at most.

    `usual_ns`: what the barriers of a kernel take then, the least that was seen.
    """

    def __init__(
        self, call: Callable[[], object] | None = None, policy: MeetingPolicy = POLICY
    ) -> None:
        self._call, self._policy = call, policy
        self.usual_ns = math.inf

    @classmethod
    def of(cls, threads: int, policy: MeetingPolicy = POLICY) -> Meeting:
        """Return it for this machine; a single thread meets no other."""
        if threads == 1:
            return cls(None, policy)
        device = eager_device(threads)
        return cls(kernel_call(phases(threads, policy.rounds), device, parallel(True)), policy)

    def settle(self) -> float:
        """Return how long it waited, in seconds; what stays apart for longer is usual from then."""
        if self._call is None:  # one thread meets no other
            self.usual_ns = 1.0
            return 0.0
        start = time.monotonic()
        while True:
            now, waited = self._ns(), time.monotonic() - start
            self.usual_ns = min(self.usual_ns, now)
            times = now / self.usual_ns
            if not self._policy.apart < times < self._policy.busy:
                return waited
            if waited > self._policy.wait_s:
                self.usual_ns = now
                return waited
            time.sleep(self._policy.pause_s)

    def _ns(self) -> float:
        """Return the least of some samples: a thread that is held up makes one late, not all."""
        clock, took = time.perf_counter_ns, []
        for _ in range(self._policy.samples):
            start = clock()
            for _ in range(self._policy.calls):
                self._call()
            took.append((clock() - start) / self._policy.calls)
        return max(1.0, min(took))
