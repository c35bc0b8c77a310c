"""The kernels of a plan in an order of execution, kept valid while kernels are joined.

Source of the method: Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic
graphs" (2006): only what stands between the two kernels in the order is looked at and renumbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .dag import Dag, Nodes, Pattern


class Kernels:
    """A partition of the ops of a graph; kernels are told by any op in them."""

    def __init__(self, dag: Dag, patterns: Sequence[Pattern]) -> None:
        """Start from disjoint patterns that do not wait for each other in a circle."""
        self._dag = dag
        self._home = list(range(len(dag)))
        self._members: dict[int, Nodes] = {}
        for pattern in patterns:
            for node in pattern.nodes:
                self._home[node] = min(pattern.nodes)
            self._members[min(pattern.nodes)] = pattern.nodes
        for node in range(len(dag)):
            self._members.setdefault(self._home[node], frozenset((node,)))
        self._position = {kernel: i for i, kernel in enumerate(self._sorted())}

    def of(self, node: int) -> Nodes:
        """Return the ops of the kernel that `node` is in."""
        return self._members[self._home[node]]

    def all(self) -> list[Nodes]:
        """Return the kernels in an order of execution."""
        return [self._members[k] for k in sorted(self._members, key=self._position.__getitem__)]

    def join(self, left: int, right: int) -> bool:
        """Make one kernel of two; return False, and change nothing, if others stand between."""
        first, second = sorted((self._home[left], self._home[right]), key=self._place)
        low, high = self._place(first), self._place(second)
        behind = self._reach(first, self._consumers, lambda k: self._place(k) < high)
        if second in self._next(behind - {first}, self._consumers):
            return False
        before = self._reach(second, self._producers, lambda k: self._place(k) > low)
        # What the second waits for comes first, what waits for the first last.
        moved = (
            sorted(before - {second}, key=self._place),
            sorted(behind - {first}, key=self._place),
        )
        slots = sorted(self._place(k) for k in (first, second, *moved[0], *moved[1]))
        order = [*moved[0], first, *moved[1]]
        for kernel, slot in zip(order, slots, strict=False):
            self._position[kernel] = slot
        for node in self._members[second]:
            self._home[node] = first
        self._members[first] |= self._members.pop(second)
        del self._position[second]
        return True

    def _place(self, kernel: int) -> int:
        return self._position[kernel]

    def _reach(
        self, start: int, step: Callable[[int], Iterable[int]], within: Callable[[int], bool]
    ) -> set[int]:
        """Return the kernels reached from `start` without leaving a part of the order."""
        seen, stack = {start}, [start]
        while stack:
            for kernel in step(stack.pop()):
                if kernel not in seen and within(kernel):
                    seen.add(kernel)
                    stack.append(kernel)
        return seen

    def _next(self, kernels: Iterable[int], step: Callable[[int], Iterable[int]]) -> set[int]:
        return {target for kernel in kernels for target in step(kernel)}

    def _consumers(self, kernel: int) -> set[int]:
        rows = (self._dag.consumers[n] for n in self._members[kernel])
        return {self._home[c] for row in rows for c in row} - {kernel}

    def _producers(self, kernel: int) -> set[int]:
        rows = (self._dag.producers[n] for n in self._members[kernel])
        return {self._home[p] for row in rows for p in row} - {kernel}

    def _sorted(self) -> list[int]:
        """Return the kernels so that each stands after those it reads (Kahn), in op order."""
        waits = {kernel: len(self._producers(kernel)) for kernel in self._members}
        ready = sorted((k for k, count in waits.items() if not count), reverse=True)
        out = []
        while ready:
            out.append(ready.pop())
            for consumer in sorted(self._consumers(out[-1]), reverse=True):
                waits[consumer] -= 1
                if not waits[consumer]:
                    ready.append(consumer)
        assert len(out) == len(self._members), "patterns wait for each other in a circle"
        return out
