"""The record of a GPU as Markdown, and as the few lines that end a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from suite.timed import COPY, PEERS
from tvm_stitch.profiling.peer import OURS
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.profiling.table import number

_HEAD = """\
`scripts/gpu_suite.py` writes this. Times in us, of calls in a queue; `a call`: waited for one by
one. A ratio is a peer's time over ours. `of memory`: kernels without a product, ours and XLA's."""
_BOTH = ("xla", "inductor")


def told(made: dict) -> str:
    """Return what came of a step, in a line."""
    if made.get("error"):
        return f"WRONG: {made['error']}"
    if "peers" in made:
        return ", ".join(f"{name} {number(us)}" for name, us in _medians(made).items())
    return ", ".join(f"{key} {value}" for key, value in made.items() if key != "log")


def summary(record: dict) -> str:
    """Return the geometric means and shares of what is there."""
    lines = []
    for kind in ("row", "model"):
        found = [made for _, made in _steps(record, kind) if OURS in _medians(made)]
        for peer in PEERS:
            lines += _mean(f"{kind}s against {peer}", (_ratio(made, peer) for made in found))
        best = (_ratio(made, _best(made, _BOTH)) for made in found)
        lines += _mean(f"{kind}s against the better of {' and '.join(_BOTH)}", best)
        if kind == "row":
            lines += _mean("rows against a copy", (_ratio(made, COPY) for made in found))
    return "\n".join(lines)


def render(record: dict) -> str:
    """Return all tables."""
    lines = [f"# {record['device']}", "", _HEAD, "", f"Packages: {record['code']}.", ""]
    lines += [*(f"- {line}" for line in summary(record).splitlines()), ""]
    for kind, title in (("row", "Rows past the L2"), ("model", "Whole models")):
        lines += _timed(title, list(_steps(record, kind)))
    lines += _facts(record, "traffic", ("bytes", "read_bytes", "written_bytes", "kernels"))
    for tool in ("memcheck", "racecheck"):
        lines += _facts(record, tool, ("told",))
    lines += _facts(record, "numbers", ("of_bound", "launches"))
    return "\n".join(lines) + "\n"


def _timed(title: str, steps: list[tuple[str, dict]]) -> list[str]:
    if not steps:
        return []
    heads = ["", "kernels", "of memory", "XLA's", "ours", "a call", "GB/s", "of a copy", *PEERS]
    lines = [f"## {title}", "", _row(heads), _row(["---", *["--:"] * (len(heads) - 1)])]
    for name, made in steps:
        medians = _medians(made)
        if OURS not in medians:
            lines.append(_row([name, made.get("error") or "not timed", *[""] * (len(heads) - 2)]))
            continue
        ours = _peer(made, OURS)
        cells = [name, str(ours["facts"]["kernels"]), _memory_kernels(made, OURS)]
        cells += [_memory_kernels(made, "xla"), number(medians[OURS])]
        cells += [number(ours["call_timing"]["median_us"])] if ours.get("call_timing") else ["-"]
        cells += [number(made["bytes"] / medians[OURS] / 1e3), _shown(_ratio(made, COPY))]
        lines.append(_row([*cells, *(_shown(_ratio(made, peer)) for peer in PEERS)]))
    return [*lines, ""]


def _facts(record: dict, kind: str, keys: tuple[str, ...]) -> list[str]:
    steps = list(_steps(record, kind))
    if not steps:
        return []
    lines = [f"## {kind}", "", _row(["", *keys]), _row(["---", *["--:"] * len(keys)])]
    for name, made in steps:
        why = made.get("error") or made.get("missing") or made.get("failed")
        cells = [why, *[""] * (len(keys) - 1)] if why else [_cell(made[key]) for key in keys]
        lines.append(_row([name, *cells]))
    return [*lines, ""]


def _steps(record: dict, kind: str) -> Iterator[tuple[str, dict]]:
    for key, made in record["steps"].items():
        found, _, name = key.partition("/")
        if found == kind:
            yield name, made


def _medians(made: dict) -> dict[str, float]:
    """Return the time of each peer that has one."""
    peers = made.get("peers", ())
    return {each["peer"]: each["timing"]["median_us"] for each in peers if each["timing"]}


def _peer(made: dict, name: str) -> dict:
    return next(each for each in made["peers"] if each["peer"] == name)


def _memory_kernels(made: dict, name: str) -> str:
    """Return how many of a compiler's kernels hold no product."""
    facts = next((each["facts"] for each in made["peers"] if each["peer"] == name), {})
    return str(facts["kernels"] - facts["products"]) if "products" in facts else "-"


def _best(made: dict, names: Iterable[str]) -> str | None:
    medians = _medians(made)
    return min((name for name in names if name in medians), key=medians.get, default=None)


def _ratio(made: dict, peer: str | None) -> float | None:
    medians = _medians(made)
    return medians[peer] / medians[OURS] if peer in medians else None


def _mean(what: str, ratios: Iterable[float | None]) -> list[str]:
    found = [ratio for ratio in ratios if ratio is not None]
    if not found:
        return []
    least = f"least {number(min(found))}, of {len(found)}"
    return [f"{what}: geometric mean {number(geometric_mean(found))}, {least}"]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(ratio: float | None) -> str:
    return "-" if ratio is None else number(ratio)


def _cell(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
