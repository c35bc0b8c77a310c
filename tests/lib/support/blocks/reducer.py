"""From a network that fails to a small part of it that fails too."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from support.blocks.case import Way, random_way
from support.blocks.graph import BlockGraph, part
from support.blocks.networks import random_network

Fails = Callable[["Part"], bool]


@dataclass(frozen=True)
class Part:
    """A part of the network of a seed, as arguments of `graph.part`; all of it at first."""

    seed: int
    way: Way
    outputs: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ()
    instead: dict[str, str] = field(default_factory=dict)

    def graph(self) -> BlockGraph:
        whole = random_network(Random(self.seed))
        return part(whole, self.outputs, self.cuts, self.instead) if self.outputs else whole

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Part:
        data = json.loads(text)
        lists = {key: tuple(data[key]) for key in ("outputs", "cuts")}
        way = {k: tuple(v) if isinstance(v, list) else v for k, v in data["way"].items()}
        return cls(**{**data, **lists, "way": Way(**way)})


def whole(seed: int) -> Part:
    """Return all of a seed's network and the way it is run."""
    rng = Random(seed)
    random_network(rng)
    return Part(seed, random_way(rng))


def reduced(first: Part, fails: Fails, deadline: float) -> Part:
    """Return the smallest part found until `deadline` (of time.monotonic) that `fails` takes."""
    best, size = first, len(first.graph().nodes)
    progress = True
    while progress and time.monotonic() < deadline:
        progress = False
        for smaller in _simpler(best):
            if time.monotonic() >= deadline:
                break
            count = len(smaller.graph().nodes)
            easier = smaller.way != best.way or len(smaller.outputs) < len(best.outputs or "x" * 99)
            if (count < size or (count == size and easier)) and fails(smaller):
                best, size, progress = smaller, count, True
                break
    return best


def _simpler(of: Part) -> Iterator[Part]:
    """Yield parts with less in them, those that leave out most first."""
    yield from _ways(of)
    graph = of.graph()
    outputs = [value.name for value in graph.outputs]
    if len(outputs) > 1:
        yield from (dataclasses.replace(of, outputs=(name,)) for name in outputs)
        for name in outputs:
            others = tuple(other for other in outputs if other != name)
            yield dataclasses.replace(of, outputs=others)
    of = dataclasses.replace(of, outputs=tuple(outputs))
    made = [value.name for value in graph.values if value.name in graph.steps]
    share = len(made) // 2
    while share:
        for at in range(len(made) - share, 0, -share):
            yield dataclasses.replace(of, cuts=(*of.cuts, *made[:at]))
        share //= 2
    for node in reversed(graph.nodes):
        for name in set(node.output) & set(outputs):
            inner = [arg.name for arg in graph.steps[name].args if arg.name in made]
            others = [other for other in outputs if other != name]
            if inner:
                yield dataclasses.replace(of, outputs=tuple(dict.fromkeys([*others, *inner])))
                yield from (
                    dataclasses.replace(of, outputs=tuple(dict.fromkeys([*others, arg])))
                    for arg in inner
                )
    for name in made:
        if name not in outputs:
            yield dataclasses.replace(of, cuts=(*of.cuts, name))
    for name in made:
        value = next(v for v in graph.values if v.name == name)
        for arg in graph.steps[name].args:
            if (arg.shape, arg.dtype) == (value.shape, value.dtype) and name not in outputs:
                yield dataclasses.replace(of, instead={**of.instead, name: arg.name})


def _ways(of: Part) -> Iterator[Part]:
    """Yield the same part run in fewer ways, on this machine, its inputs aligned."""
    way = of.way
    simpler = [{"fusions": (f,)} for f in way.fusions if len(way.fusions) > 1]
    simpler += [{"threads": (n,)} for n in way.threads if len(way.threads) > 1]
    if way.target != "x86":
        simpler.append({"target": "x86"})
    if way.threads == (2,):
        simpler.append({"threads": (1,)})
    if way.offset:
        simpler.append({"offset": 0})
    for change in simpler:
        yield dataclasses.replace(of, way=dataclasses.replace(way, **change))
