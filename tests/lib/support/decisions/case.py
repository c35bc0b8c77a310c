"""Random models with random decisions in place of the cost model's: what comes out wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from unittest import mock

import tvm_stitch
from support.blocks.case import excused
from support.blocks.networks import random_network
from support.decisions.devices import on_device, random_device
from support.kernels import stitch_case
from support.random_graphs.case import mismatches, run_graph
from support.random_graphs.graphs import random_graph
from tir_schedules.cpu import template
from tir_schedules.cpu.decide.decision_space import variant_space
from tir_schedules.cpu.facts.reading import reading_of
from tir_schedules.cpu.plan.decisions import Decisions
from tir_schedules.cpu.plan.forms import forms
from tir_schedules.decisions import from_json, to_json
from tir_schedules.device import CpuDevice
from tir_schedules.kernel_ir.stage import Kernel

TRIES = 6  # of a kernel, until decisions are legal
COMPILED = 3  # times, of a model of few kernels


@dataclass
class Drawn:
    """What was decided for the kernels of a model, and why other decisions were refused."""

    decisions: list[str] = field(default_factory=list)
    refused: Counter = field(default_factory=Counter)

    @property
    def pairs(self) -> int:
        return len(self.decisions) + self.refused.total()


@contextmanager
def random_decisions(rng: Random, drawn: Drawn) -> Iterator[None]:
    """Decide at random for each kernel that is scheduled, by what goes through JSON and back."""
    usual = template.default_decisions

    def decide(kernel: Kernel, device: CpuDevice) -> Decisions | str:
        reading = reading_of(kernel)
        for _ in range(TRIES):
            space = variant_space(reading, device, rng.choice(forms()))
            if isinstance(space, str):
                continue
            decisions = space.sample(rng)
            plan = template.plan(kernel, decisions, device)
            if isinstance(plan, str):
                drawn.refused[plan] += 1
                continue
            text = to_json(decisions)
            drawn.decisions.append(text)
            return from_json(Decisions, text)
        return usual(kernel, device)

    with mock.patch.object(template, "default_decisions", decide):
        yield


def wrong(seed: int, pairs: int = 2) -> tuple[list[str], Drawn]:
    """Return a line for each result of a seed's model that is wrong, and what was decided.

    It is compiled until so many decisions were drawn, or `COMPILED` times.
    """
    rng, drawn = Random(seed), Drawn()
    with ExitStack() as stack:
        if rng.random() < 0.5:
            width = stitch_case.device().vector_bytes
            stack.enter_context(on_device(random_device(rng, vector_bytes=width)))
        check = _random_graph if rng.random() < 0.5 else _random_network
        graph_seed = rng.getrandbits(32)
        for _ in range(COMPILED):
            with random_decisions(rng, drawn):
                found = check(Random(graph_seed), rng.choice((1, 2, 3)))
            if found or drawn.pairs >= pairs:
                return found, drawn
    return [], drawn


def _random_graph(rng: Random, threads: int) -> list[str]:
    graph = random_graph(rng)
    return mismatches(graph, run_graph(graph, threads))


def _random_network(rng: Random, threads: int) -> list[str]:
    graph = random_network(rng)
    model = tvm_stitch.compile(graph.model(), threads=threads)
    results = model.run(graph.feeds())
    outputs = [results[value.name] for value in graph.outputs]
    found = mismatches(graph, outputs)
    return found and excused(graph, outputs, found)
