"""Write the README's results from the records in docs/results, all of one commit.

    python scripts/readme_results.py     # after bench_models.py, and what BENCHES names

Of BENCHES those stand in the README that were run on the commit of bench_models. Records of several
commits, or of a tree that is none, are refused.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import bench_compute
import bench_memory_table
import bench_models

from tvm_stitch.profiling.stats import geometric_mean

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs/results"
MARKERS = re.compile(r"(<!-- results: .*? -->\n).*?(<!-- end of results -->)", re.DOTALL)
# What the README says of each record, by the file's name.
CHART = "docs/results/models.svg"  # of draw_results.py
BENCHES = {
    "bench_memory": "memory-intensive subgraphs",
    "bench_gemm": "matrix products",
    "bench_coarse": "MLP and attention, batch 1 to 512",
    "bench_conv": "convolutions of ResNet-50, MobileNetV2, and others",
}


def with_results(readme: str, section: str) -> str:
    """Return the README with `section` between its markers.

    Raises: ValueError if the markers are not there once.
    """
    text, count = MARKERS.subn(lambda found: f"{found[1]}{section}{found[2]}", readme)
    if count != 1:
        raise ValueError(f"README.md has {count} results sections, not one")
    return text


def section(records: Mapping[str, dict]) -> str:
    """Return the README's results of records by their names.

    Raises: ValueError if they are not of one committed tree.
    """
    commits = {record["commit"] for record in records.values()}
    if len(commits) != 1 or any(commit.endswith("-dirty") for commit in commits):
        told = ", ".join(f"{name} {record['commit']}" for name, record in records.items())
        raise ValueError(f"results of several trees, or of an uncommitted one: {told}")
    models = records["bench_models"]
    ratios = [bench_models.ratio(row) for row in models["rows"]]
    lines = [
        f"[![The time of each peer over ours]({CHART})](docs/results/bench_models.md)",
        "",
        f"Whole models (`{models['command']}` at {models['commit']}, {models['mcpu']}, "
        f"{models['threads']} threads, batch 1, float32):",
        f"the best peer takes {geometric_mean(ratios):.2f} times as long as we do in the mean, "
        f"{min(ratios):.2f} at the least. All tables, with the",
        "commands that made them: [docs/results](docs/results).",
        *(_line(name, records[name]) for name in BENCHES if name in records),
    ]
    return "\n".join(lines) + "\n"


def recorded() -> dict[str, dict]:
    """Return the records that the README's results are made of."""
    names = ("bench_models", *BENCHES)
    records = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in names}
    commit = records["bench_models"]["commit"]
    return {name: record for name, record in records.items() if record["commit"] == commit}


def _line(name: str, record: dict) -> str:
    ratios, peers = _memory(record) if name == "bench_memory" else _compute(record)
    lowest, mean = min(ratios), geometric_mean(ratios)
    link = f"[{len(ratios)} {BENCHES[name]}](docs/results/{name}.md)"
    told = f"{mean:.2f} in the mean, {lowest:.2f} at the least, against {', '.join(sorted(peers))}"
    return f"Of {link} at that commit, {told}."


def _memory(record: dict) -> tuple[list[float], set[str]]:
    rows = [row for row in bench_memory_table.judged(record) if row.best]
    raced = {name for row in rows for name in row.medians} & set(bench_memory_table.RACING)
    return [row.ratio(row.best) for row in rows], raced - set(bench_models.LOWER_PRECISION)


def _compute(record: dict) -> tuple[list[float], set[str]]:
    ours = {bench_compute.OURS, bench_compute.PEAK}
    raced = {peer for row in record["rows"] for peer in row["us"]} - ours
    return [bench_compute.ratio(row) for row in record["rows"]], raced


def main() -> str | None:
    readme = ROOT / "README.md"
    try:
        text = with_results(readme.read_text(), section(recorded()))
    except ValueError as error:
        return str(error)
    readme.write_text(text)
    return None


if __name__ == "__main__":
    sys.exit(main())
