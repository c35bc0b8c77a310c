"""The figures of `bench_memory.py` judged and laid out: ratios, geometric means, Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tvm_stitch.profiling.child import last_error
from tvm_stitch.profiling.peer import LOWER_PRECISION, OURS, PEERS
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.profiling.table import number

# What issue 2 asks for.
VS_XLA, VS_BEST, VS_BEST_ROW, VS_TVM = 1.25, 0.9, 0.7, 5.0
COPY_SHARE, EXEMPT_SHARE = 0.85, 0.90
RACING = [name for name, peer in PEERS.items() if name != OURS and not peer.yardstick]


@dataclass(frozen=True)
class Judged:
    """One row's figures: medians in us by peer, and the shares of the two copies' speed."""

    key: dict
    medians: dict[str, float]
    facts: dict
    worst_apart: float

    @property
    def ours(self) -> float:
        return self.medians[OURS]

    @property
    def best(self) -> str | None:
        """The fastest peer that computes in the model's own precision."""
        racing = [name for name in RACING if name not in LOWER_PRECISION]
        return min((n for n in racing if n in self.medians), key=self.medians.get, default=None)

    def ratio(self, peer: str | None) -> float | None:
        """Return a peer's time over ours: above 1 where ours is faster."""
        return self.medians[peer] / self.ours if peer in self.medians else None

    @property
    def exempt(self) -> bool:
        """At 90 % of its own roofline a row is excused from the bound against the best peer."""
        return (self.ratio("copy") or 0) >= EXEMPT_SHARE


def judged(record: dict) -> list[Judged]:
    """Return the rows that were timed."""
    rows = []
    for row in record["rows"]:
        timed = {peer["peer"]: peer for peer in row["peers"] if peer["timing"]}
        if OURS not in timed:
            continue
        medians = {name: peer["timing"]["median_us"] for name, peer in timed.items()}
        apart = [p["apart"] for n, p in timed.items() if p["apart"] and n not in LOWER_PRECISION]
        rows.append(Judged(row, medians, timed[OURS]["facts"], max(apart, default=0.0)))
    return rows


def summary(record: dict) -> str:
    """Return the geometric means and shares, each beside what issue 2 asks for."""
    rows = judged(record)
    memory = [row for row in rows if row.key["size"] == "memory"]
    kernels = sum(row.facts["kernels"] for row in rows)
    fallbacks = sum(row.facts["fallbacks"] for row in rows)
    best = [(row, row.ratio(row.best)) for row in rows if row.best]
    bound = [(row, ratio) for row, ratio in best if not row.exempt]
    shares = [row.ratio("copy") for row in memory if row.ratio("copy")]
    lines = [
        f"{len(rows)} of {len(record['rows'])} rows timed, {len(memory)} of main-memory size",
        *_mean("XLA", (row.ratio("xla") for row in rows), VS_XLA),
        *_mean("the best peer of each row", (ratio for _, ratio in best), VS_BEST),
        *_mean("stock TVM", (row.ratio("tvm") for row in rows), VS_TVM),
        f"rows under {VS_BEST_ROW} of the best peer, exempt ones left out: "
        f"{_names((r for r, ratio in bound if ratio < VS_BEST_ROW), len(bound))}",
        f"main-memory rows under {COPY_SHARE:.0%} of the plain-store copy: "
        f"{sum(share < COPY_SHARE for share in shares)} of {len(shares)}; "
        f"their geometric mean is {geometric_mean(shares):.0%}",
        f"kernels on the fallback schedule: {fallbacks} of {kernels}",
        f"largest difference from a peer's output: "
        f"{max((row.worst_apart for row in rows), default=0.0):.1e}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def render(record: dict) -> str:
    """Return the whole record as Markdown."""
    device = record["device"]
    caches = f"L2 {device['l2_bytes'] >> 10} KiB, L3 {device['l3_bytes'] >> 20} MiB"
    peers = [name for name in RACING if any(name in row.medians for row in judged(record))]
    head = ["subgraph", "shape", "threads", "ours", *peers]
    head += ["vs XLA", "vs best", "best", "vs TVM", "% copy", "% stream", "note"]
    lines = [
        "# Memory-intensive subgraphs against their peers",
        "",
        f"`{record['command']}` at {record['commit']}, on {device['cpus']} x {device['mcpu']} "
        f"({caches}). Medians over rounds, in us, resident tensors. Ratios are a peer's time over "
        "ours: above 1, ours is faster. `% copy`: the speed of this row's bytes (inputs once, "
        "outputs once) as a share of a plain-store copy of as many, `% stream` of a "
        "streaming-store copy. `openvino-default` may compute in bf16 and is never the best peer.",
        "",
        summary(record),
        "",
        _line(head),
        _line(["---"] * len(head)),
        *[_line(_cells(row, peers)) for row in judged(record)],
    ]
    failed = [row for row in record["rows"] if "error" in row]
    if failed:
        lines += ["", "Rows of ours that failed:", ""]
        lines += [f"- {_key(row)}: {last_error(row['error'])}" for row in failed]
    return "\n".join(lines) + "\n"


def _mean(name: str, ratios: Iterable[float | None], wanted: float) -> list[str]:
    known = [ratio for ratio in ratios if ratio]
    if not known:
        return []
    mean, rows = geometric_mean(known), f"over {len(known)} rows"
    return [f"geometric mean against {name}: {mean:.2f} {rows} (asked: {wanted})"]


def _names(rows: Iterable[Judged], count: int) -> str:
    named = [_key(row.key) for row in rows]
    return f"{len(named)} of {count}" + (f" ({'; '.join(named)})" if named else "")


def _key(row: dict) -> str:
    return f"{row['name']} {row['size']} {row['threads']}t"


def _cells(row: Judged, peers: list[str]) -> list[str]:
    ratios = [_ratio(row.ratio("xla")), _ratio(row.ratio(row.best)), row.best or "-"]
    ratios += [
        _ratio(row.ratio("tvm")),
        _share(row.ratio("copy")),
        _share(row.ratio("copy-stream")),
    ]
    notes = ["exempt"] if row.exempt else []
    notes += [f"{row.facts['fallbacks']} fallback"] if row.facts["fallbacks"] else []
    notes += [f"{row.facts['kernels']} kernels"] if row.facts["kernels"] != 1 else []
    times = [number(row.medians[name]) if name in row.medians else "-" for name in peers]
    shape = "x".join(map(str, row.key["shape"]))
    key = [row.key["name"], shape, str(row.key["threads"]), number(row.ours)]
    return [*key, *times, *ratios, ", ".join(notes)]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
