"""The same bytes from every thread count: the zoo at full size, some wild models on two of them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import zoo
from wild.case import Case
from wild.catalogue import ARCHITECTURES
from wild.expected import NOT_EXPORTED, REFUSED
from wild.exporters import EXPORTERS

import tvm_stitch

THREADS = (1, 2, 3, 4, 8)
WILD, WILD_THREADS = 48, (1, 3)


def cases(seed: int) -> list[str]:
    wild = random.Random(seed).sample([*_wild_cases()], WILD)
    return [*(f"zoo:{name}" for name in zoo.MODELS), *wild]


def run(case: str) -> dict:
    library, _, name = case.partition(":")
    if library == "zoo":
        proto = zoo.model(name)
        feeds = zoo.random_inputs(proto, seed=1)
        return {"wrong": _wrong(lambda threads: _run_zoo(proto, feeds, threads), THREADS)}
    with tempfile.TemporaryDirectory(prefix="wild-") as folder:
        exported = Case.exported(name, Path(folder))
        wrong = _wrong(lambda threads: exported.run(exported.compile(threads)), WILD_THREADS)
        return {"wrong": wrong}


def _wild_cases() -> Iterator[str]:
    """Yield for each architecture its first case, from a place of its own, that is to compile."""
    importers, fails = [*EXPORTERS], {**NOT_EXPORTED, **REFUSED}
    for index, name in enumerate(ARCHITECTURES):
        turned = (
            f"{name}:{importers[(index + i) % len(importers)]}" for i in range(len(importers))
        )
        if chosen := next((case for case in turned if case not in fails), None):
            yield f"wild:{chosen}"


def _run_zoo(proto, feeds: dict[str, np.ndarray], threads: int) -> list[np.ndarray]:
    return list(tvm_stitch.compile(proto, threads=threads).run(feeds).values())


def _wrong(outputs: Callable[[int], list[np.ndarray]], counts: tuple[int, ...]) -> list[str]:
    first, *others = counts
    expected = [array.tobytes() for array in outputs(first)]
    return [
        f"{threads} threads give other bytes than {first}"
        for threads in others
        if [array.tobytes() for array in outputs(threads)] != expected
    ]
