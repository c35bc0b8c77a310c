"""Which cases a run takes, in which order: its seed says both."""

from __future__ import annotations

import functools
import random
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType

from .loaded import common

SEEDS = 1 << 32


def new_seed() -> int:
    """Return a seed that no one chose."""
    return random.SystemRandom().randrange(SEEDS)


def draw(count: int, seed: int) -> list[str]:
    """Return `count` different seeds of random cases, as their names."""
    return [str(drawn) for drawn in random.Random(seed).sample(range(SEEDS), count)]


def todo(cases: Iterable[str], seed: int, done: Collection[str] = ()) -> list[str]:
    """Return the cases in the order of `seed`, without as many as are done."""
    shuffled = sorted(cases)
    count = max(len(shuffled) - len(done), 0)
    random.Random(seed).shuffle(shuffled)
    return [case for case in shuffled if case not in done][:count]


def done_by(section: ModuleType, runs: Iterable[Mapping]) -> set[str]:
    """Return the cases that these runs of a section took.

    Workers take one case after the other and end what they have taken, so those that ran are the
    first of a run's order. A run that did wrong cases again took no others.
    """
    done: set[str] = set()
    for run in runs:
        if "again" in run:
            continue
        left_out = done if run["rest"] else ()
        done.update(todo(section.cases(run["seed"]), run["seed"], left_out)[: run["ran"]])
    return done


def total(section: ModuleType, before: Mapping, run: Mapping) -> dict:
    """Return the section's record of the runs `before` and of `run`, each case counted once.

    Random cases of another seed are other cases, so that more may have run than one run has. A case
    that was wrong and was run `again` is what it was then. A section has left out of the packages
    what all of its runs have that tell.
    """
    keys = ("seed", "rest", "again", "ran", "seconds", "commit", "cpu", "left_out")
    runs = [*before.get("runs", ()), {key: run[key] for key in keys if key in run}]
    wrong, measured = ({**before.get(key, {}), **run[key]} for key in ("wrong", "measured"))
    wrong = {c: w for c, w in wrong.items() if c in run["wrong"] or c not in run.get("again", ())}
    told = [each["left_out"] for each in runs if "left_out" in each]
    return {
        "cases": max(before.get("cases", 0), run["cases"]),
        "ran": len(done_by(section, runs)),
        "seconds": round(sum(each["seconds"] for each in runs), 1),
        "runs": runs,
        "left_out": functools.reduce(common, told) if told else [],
        "wrong": wrong,
        **({"measured": measured} if measured else {}),
    }
