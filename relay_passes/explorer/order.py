"""Kernels of a plan in an order of execution, if there is one."""

from __future__ import annotations

from collections.abc import Sequence

from .dag import Dag, Pattern


def without_cycles(dag: Dag, patterns: Sequence[Pattern]) -> list[Pattern]:
    """Return the patterns less those that wait for each other, the least gain given up first.

    Each pattern is convex, but two may each need a result of the other. Of such a knot half goes at
    a time: what could have stayed is joined again by `improve`.
    """
    left = list(patterns)
    while True:
        home = _homes(dag, left)
        knots = [c for c in _components(dag, home) if len(c) > 1]
        if not knots:
            return left
        knot_of = {kernel: number for number, knot in enumerate(knots) for kernel in knot}
        inside: list[list[Pattern]] = [[] for _ in knots]
        for pattern in left:
            if (kernel := home[min(pattern.nodes)]) in knot_of:
                inside[knot_of[kernel]].append(pattern)
        dropped: set[Pattern] = set()
        for found in inside:
            found.sort(key=lambda p: (p.score, min(p.nodes)))
            dropped.update(found[: (len(found) + 1) // 2])
        left = [p for p in left if p not in dropped]


def _homes(dag: Dag, patterns: Sequence[Pattern]) -> list[int]:
    """Return for each op the first op of its kernel."""
    home = list(range(len(dag)))
    for pattern in patterns:
        first = min(pattern.nodes)
        for node in pattern.nodes:
            home[node] = first
    return home


def _components(dag: Dag, home: Sequence[int]) -> list[set[int]]:
    """Return the strongly connected kernels (Tarjan 1972), without recursion."""
    edges: dict[int, list[int]] = {kernel: [] for kernel in home}
    for node, row in enumerate(dag.consumers):
        edges[home[node]] += [home[c] for c in row if home[c] != home[node]]
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    held: set[int] = set()
    out: list[set[int]] = []
    for root, row in edges.items():
        if root in number:
            continue
        work = [(root, iter(row))]
        number[root] = lowest[root] = len(number)
        stack.append(root)
        held.add(root)
        while work:
            kernel, rest = work[-1]
            for target in rest:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    stack.append(target)
                    held.add(target)
                    work.append((target, iter(edges[target])))
                    break
                if target in held:
                    lowest[kernel] = min(lowest[kernel], number[target])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[kernel])
                if lowest[kernel] == number[kernel]:
                    component = set()
                    while kernel not in component:
                        component.add(stack.pop())
                    held -= component
                    out.append(component)
    return out
