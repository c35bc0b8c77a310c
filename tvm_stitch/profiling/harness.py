"""Prepare one model in every peer, compare what they answer, time them in turns."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import StitchError
from . import arrays
from .child import Child, Died
from .peer import OURS, PEERS, Job
from .rounds import Pace, Player, play
from .simplified import forget
from .stats import Timing, difference, summarize

# Part of the budget kept for measuring however long the peers take to prepare.
_MEASURING_SHARE = 0.3
_GRACE_S = 30.0
_WORKER = f"{__package__}.worker"
PACE = Pace()


class OursDied(RuntimeError):
    """Our own compiler crashed: a bug, shown with all that its process printed."""


@dataclass
class Row:
    """One peer's line: timed, or `reason` why not. `apart` is max|diff| / max|reference|."""

    peer: str
    reason: str | None = None
    timing: Timing | None = None
    run_timing: Timing | None = None
    apart: float | None = None
    facts: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        timings = {"timing": self.timing, "run_timing": self.run_timing}
        shown = {name: timing and timing.to_json() for name, timing in timings.items()}
        facts = {"reason": self.reason, "apart": self.apart, "facts": self.facts}
        return {"peer": self.peer, **facts, **shown}


class Crew:
    """The peers' processes, all on the same `threads` CPUs, kept from model to model.

    Use as a context manager: leaving it ends them all and removes their files.
    """

    def __init__(self, threads: int) -> None:
        allowed = sorted(os.sched_getaffinity(0))
        if not 1 <= threads <= len(allowed):
            rule = f"this process may use {len(allowed)} CPUs"
            raise StitchError(f"--threads {threads}", rule, f"give 1 to {len(allowed)}")
        self.threads, self._cpus = threads, allowed[:threads]
        self.workdir = Path(tempfile.mkdtemp(prefix="tvm-stitch-bench-"))
        self._children: dict[str, Child] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_exc: object) -> None:
        for child in self._children.values():
            child.kill()
        shutil.rmtree(self.workdir, ignore_errors=True)

    def child(self, name: str) -> Child:
        """Return the peer's process, started again if it died over an earlier model."""
        if name not in self._children or not self._children[name].alive:
            self._children[name] = Child(name, _WORKER, self._cpus, self.workdir)
        return self._children[name]


def compare(
    crew: Crew,
    job: Job,
    inputs: Mapping[str, np.ndarray],
    peers: Sequence[str],
    budget_s: float,
    *,
    sets: int = 1,
    pace: Pace = PACE,
    seed: int = 0,
) -> list[Row]:
    """Return one row a peer, in the order given; the others are compared with the first.

    Every call takes the next of `sets` copies of the inputs. The whole takes about `budget_s`; a
    peer that is not ready when 70 % of it is gone is left out, with that as its reason.

    Raises: StitchError as our own compiler raises it; OursDied if it crashes.
    """
    start = time.monotonic()
    forget(crew.workdir)
    listed = arrays.save(inputs, crew.workdir, "input")
    rows, players, reference = [], [], None
    for name in peers:
        row = Row(name)
        rows.append(row)
        row.reason = PEERS[name].missing()
        if row.reason:
            continue
        ready_by = start + budget_s * (1 - _MEASURING_SHARE)
        message = {"do": "prepare", "job": job.to_json(), "inputs": listed, "sets": sets}
        answer = _prepare(crew, row, message, ready_by - time.monotonic())
        if answer is None:
            continue
        outputs = list(arrays.load(answer["outputs"]).values())
        arrays.remove(answer["outputs"])
        reference = outputs if name == peers[0] else reference
        if reference and outputs:
            row.apart = difference(outputs, reference)
        players += [_player(crew, name, *item) for item in answer["estimates"].items()]
    arrays.remove(listed)
    play(players, budget_s - (time.monotonic() - start), pace, random.Random(seed))
    _fill(rows, players)
    return rows


def _prepare(crew: Crew, row: Row, message: dict, left_s: float) -> dict | None:
    """Return the peer's answer, or None with the reason in its row."""
    if left_s <= 0:
        row.reason = "the budget was spent before its turn; give a larger --budget"
        return None
    child = crew.child(row.peer)
    child.resume()
    try:
        answer = child.ask(message, left_s)
    except Died as death:
        if row.peer == OURS and death.log:
            raise OursDied(f"our own process ended:\n{death.log}") from None
        row.reason = str(death)
        return None
    child.pause()
    if error := answer.get("error"):
        raise StitchError(*error)
    row.reason = answer.get("cannot")
    row.facts = answer.get("facts", {})
    return None if row.reason else answer


def _player(crew: Crew, name: str, entry: str, estimate_ns: int) -> Player:
    child = crew.child(name)

    def measure(runs: int, seconds: float, warm: bool) -> list[int]:
        message = {"do": "measure", "entry": entry, "runs": runs, "seconds": seconds, "warm": warm}
        patience = _GRACE_S + seconds + 10 * estimate_ns / 1e9
        child.resume()
        samples = child.ask(message, patience)["ns"]
        child.pause()
        return samples

    return Player(f"{name}/{entry}", estimate_ns, measure, PEERS[name].yardstick)


def _fill(rows: Sequence[Row], players: Sequence[Player]) -> None:
    by_name = {player.name: player for player in players}
    for row in rows:
        player, run = by_name.get(f"{row.peer}/resident"), by_name.get(f"{row.peer}/run")
        if player is None:
            continue
        row.timing = summarize(player.rounds)
        row.run_timing = run and summarize(run.rounds)
        if row.timing is None:
            row.reason = player.dropped or "the budget was spent before it was measured"
