"""Prepare one model in every peer, compare what they answer, time them in turns."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
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
    """One peer's line: timed, or `reason` why not. `apart` is max|diff| / max|reference|.

    On a GPU `timing` is of calls that queue up, and `call_timing` of calls waited for one by one.
    """

    peer: str
    reason: str | None = None
    timing: Timing | None = None
    call_timing: Timing | None = None
    run_timing: Timing | None = None
    apart: float | None = None
    facts: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        timings = {"timing": self.timing, "run_timing": self.run_timing}
        timings |= {"call_timing": self.call_timing} if self.call_timing else {}
        shown = {name: timing and timing.to_json() for name, timing in timings.items()}
        facts = {"reason": self.reason, "apart": self.apart, "facts": self.facts}
        return {"peer": self.peer, **facts, **shown}


class Crew:
    """The peers' processes, all on the same `threads` CPUs, kept from model to model.

    On the `gpu` they take turns too. `worker` is the module that they run. Use as a context
    manager: leaving it ends them all and removes their files.
    """

    def __init__(self, threads: int, gpu: bool = False, worker: str = _WORKER) -> None:
        allowed = sorted(os.sched_getaffinity(0))
        if not 1 <= threads <= len(allowed):
            rule = f"this process may use {len(allowed)} CPUs"
            raise StitchError(f"--threads {threads}", rule, f"give 1 to {len(allowed)}")
        self.threads, self._cpus = threads, allowed[:threads]
        self.gpu, self._worker = gpu, worker
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
            place = (self._cpus, self.workdir, self.gpu)
            self._children[name] = Child(name, self._worker, *place)
        return self._children[name]

    def settle(self) -> None:
        """End the processes that owe an answer about an earlier model."""
        for child in self._children.values():
            if child.owes:
                child.kill()


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
    peer that is not ready when 70 % of it is gone is left out, with that as its reason. For a GPU
    they prepare side by side: what is timed is not the CPU.

    Raises: StitchError as our own compiler raises it; OursDied if it crashes.
    """
    start = time.monotonic()
    crew.settle()
    forget(crew.workdir)
    listed = arrays.save(inputs, crew.workdir, "input")
    rows, players, reference = [Row(name, PEERS[name].missing()) for name in peers], [], None
    message = {"do": "prepare", "job": job.to_json(), "inputs": listed, "sets": sets}
    ready_by = start + budget_s * (1 - _MEASURING_SHARE)
    present = [row for row in rows if row.reason is None]
    groups = [present] if crew.gpu else [[row] for row in present]
    for row, answer in _prepared(crew, groups, message, ready_by):
        outputs = list(arrays.load(answer["outputs"]).values())
        arrays.remove(answer["outputs"])
        reference = outputs if row is rows[0] else reference
        if reference and outputs:
            row.apart = difference(outputs, reference)
        players += [_player(crew, row.peer, *item) for item in answer["estimates"].items()]
    arrays.remove(listed)
    play(players, budget_s - (time.monotonic() - start), pace, random.Random(seed))
    _fill(rows, players)
    return rows


def _prepared(
    crew: Crew, groups: Sequence[Sequence[Row]], message: dict, ready_by: float
) -> Iterator[tuple[Row, dict]]:
    """Yield each peer that is ready with its answer; the others' rows get their reasons.

    The peers of a group prepare side by side.
    """
    for group in groups:
        if time.monotonic() >= ready_by:
            for row in group:
                row.reason = "the budget was spent before its turn; give a larger --budget"
            continue
        for row in group:
            crew.child(row.peer).resume()
            with _telling_of_death(row):
                crew.child(row.peer).post(message)
        for row in group:
            answer: dict = {}
            if row.reason is None:
                with _telling_of_death(row):
                    answer = crew.child(row.peer).answer(max(0.0, ready_by - time.monotonic()))
                    crew.child(row.peer).pause()
            if error := answer.get("error"):
                raise StitchError(*error)
            row.reason = row.reason or answer.get("cannot")
            row.facts = answer.get("facts", {})
            if row.reason is None:
                yield row, answer


@contextlib.contextmanager
def _telling_of_death(row: Row) -> Iterator[None]:
    """Give a row the reason of its process's death. Raises: OursDied if that was ours."""
    try:
        yield
    except Died as death:
        if row.peer == OURS and death.log:
            raise OursDied(f"our own process ended:\n{death.log}") from None
        row.reason = str(death)


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
        player = by_name.get(f"{row.peer}/resident")
        if player is None:
            continue
        row.timing = summarize(player.rounds)
        call, run = by_name.get(f"{row.peer}/call"), by_name.get(f"{row.peer}/run")
        row.call_timing = call and summarize(call.rounds)
        row.run_timing = run and summarize(run.rounds)
        if row.timing is None:
            row.reason = player.dropped or "the budget was spent before it was measured"
