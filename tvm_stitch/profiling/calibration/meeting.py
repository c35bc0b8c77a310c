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
    the CPUs, and to wait is of no use. `wait_s`: until what stays apart is usual, `pause_s` between
    two looks; in all so large a `share` of the time since it began, and `wait_s` more. `samples`
    of `calls` each, the least of which counts, in kernels of so many `rounds` of barriers.
    """

    apart: float = 1.5
    busy: float = 6.0
    wait_s: float = 60.0
    share: float = 0.2
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

    `usual_ns`: what the barriers of a kernel take then, the least that was seen. Where they come
    and go it has waited enough at some time, and they are taken as they are.
    """

    def __init__(
        self, call: Callable[[], object] | None = None, policy: MeetingPolicy = POLICY
    ) -> None:
        self._call, self._policy = call, policy
        self.usual_ns = math.inf
        self._begun = time.monotonic()
        self._waited = 0.0
        self._apart_since: float | None = None

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
        while self._is_apart() and self._may_wait():
            time.sleep(self._policy.pause_s)
            self._waited += self._policy.pause_s
        return time.monotonic() - start

    def _is_apart(self) -> bool:
        """Look, and keep what is usual: what has been apart for long is, from now on."""
        now_ns, now = self._ns(), time.monotonic()
        self.usual_ns = min(self.usual_ns, now_ns)
        if not self._policy.apart < now_ns / self.usual_ns < self._policy.busy:
            self._apart_since = None
            return False
        if self._apart_since is None:
            self._apart_since = now
        if now - self._apart_since <= self._policy.wait_s:
            return True
        self.usual_ns, self._apart_since = now_ns, None
        return False

    def _may_wait(self) -> bool:
        since = time.monotonic() - self._begun
        return self._waited < self._policy.wait_s + self._policy.share * since

    def _ns(self) -> float:
        """Return the least of some samples: a thread that is held up makes one late, not all."""
        clock, took = time.perf_counter_ns, []
        for _ in range(self._policy.samples):
            start = clock()
            for _ in range(self._policy.calls):
                self._call()
            took.append((clock() - start) / self._policy.calls)
        return max(1.0, min(took))
