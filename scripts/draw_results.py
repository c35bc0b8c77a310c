"""Draw the committed records as one chart, docs/results/models.svg: peers' times over ours.

    python scripts/draw_results.py     # after bench_models.py and the benches of parts

Left are whole models, right the geometric means of parts, on each machine that has records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path

import bench_compute
import bench_memory_table
import bench_models

from tvm_stitch.profiling.stats import geometric_mean

RESULTS = Path(__file__).resolve().parents[1] / "docs/results"
CHART = RESULTS / "models.svg"
COLOURS = {
    "onnxruntime": "#4c78a8",
    "openvino": "#72b7b2",
    "inductor": "#e45756",
    "inductor-max-autotune": "#f58518",
}
PARTS = {
    "bench_memory": "memory-intensive",
    "bench_gemm": "products",
    "bench_coarse": "MLP, attention",
    "bench_conv": "convolutions",
}
LEFT, TOP, UNIT, BAR, GAP = 130, 72, 150, 9, 12  # pixels; UNIT is a ratio of 1
RIGHT = 560  # where the second panel begins


def chart() -> str:
    """Return the chart as SVG."""
    bars, height = [], TOP
    for record in _records("bench_models"):
        told = f"{record['mcpu']}, {record['threads']} threads, at {record['commit']}"
        bars.append(_text(LEFT, height, told))
        drawn, height = _models(record, height + 16)
        bars += drawn
    parts = list(_parts())
    height = max(height, TOP + len(parts) * (BAR + GAP) + 40)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="960" height="{height}" fill="#fff"/>',
        _text(LEFT, 18, "Time of each peer over ours; right of the line, ours is faster", 13),
        *_legend(),
        *bars,
        _text(RIGHT, 34, "Parts of models: the best peer over ours, geometric mean"),
        *_means(parts),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _records(name: str) -> Iterator[dict]:
    """Yield a bench's record of each machine that has one; `machine` is its folder's name."""
    for folder in (RESULTS, *sorted(path for path in RESULTS.iterdir() if path.is_dir())):
        path = folder / f"{name}.json"
        if path.exists():
            machine = folder.name if folder != RESULTS else "rocketlake"
            yield {"mcpu": machine, **json.loads(path.read_text())}


def _models(record: dict, top: int) -> tuple[list[str], int]:
    """Draw a machine's models from `top` on; return that and where the next may begin."""
    out, y = [], top
    for row in record["rows"]:
        medians = {p["peer"]: p["timing"]["median_us"] for p in row["peers"] if p["timing"]}
        ours = medians[bench_models.OURS]
        out.append(_text(LEFT - 8, y + 2 * BAR, row["name"], anchor="end"))
        for peer in (name for name in COLOURS if name in medians):
            ratio = medians[peer] / ours
            out.append(_bar(LEFT, y, ratio, COLOURS[peer]))
            out.append(_text(LEFT + ratio * UNIT + 4, y + BAR, f"{ratio:.2f}", 9))
            y += BAR + 1
        y += GAP
    return [*out, _line(LEFT + UNIT, top - 6, y)], y + 20


def _parts() -> Iterator[tuple[str, float, float]]:
    """Yield a name, the geometric mean and the lowest ratio of each record of parts."""
    for name, label in PARTS.items():
        for record in _records(name):
            ratios = _ratios(name, record)
            told = f"{label}, {record['mcpu']}, {record['commit']}"
            yield told, geometric_mean(ratios), min(ratios)


def _ratios(name: str, record: dict) -> list[float]:
    if name == "bench_memory":
        rows = [row for row in bench_memory_table.judged(record) if row.best]
        return [row.ratio(row.best) for row in rows]
    return [bench_compute.ratio(row) for row in record["rows"]]


def _means(parts: list[tuple[str, float, float]]) -> list[str]:
    out, x, y = [], RIGHT + 190, TOP
    for told, mean, lowest in parts:
        out.append(_text(x - 8, y + BAR, told, 10, "end"))
        out.append(_bar(x, y, mean, "#54a24b", UNIT // 3))
        out.append(_text(x + mean * UNIT / 3 + 4, y + BAR, f"{mean:.2f} (lowest {lowest:.2f})", 9))
        y += BAR + GAP
    return [*out, _line(x + UNIT / 3, TOP - 6, y)]


def _legend() -> Iterator[str]:
    x = LEFT
    for name, colour in COLOURS.items():
        yield f'<rect x="{x}" y="42" width="9" height="9" fill="{colour}"/>'
        yield _text(x + 13, 50, name, 10)
        x += 24 + 6 * len(name)


def _bar(x: float, y: float, ratio: float, colour: str, unit: float = UNIT) -> str:
    return f'<rect x="{x:.0f}" y="{y}" width="{ratio * unit:.1f}" height="{BAR}" fill="{colour}"/>'


def _line(x: float, above: float, below: float) -> str:
    return f'<path d="M{x:.0f} {above:.0f}V{below:.0f}" stroke="#000" stroke-dasharray="3 2"/>'


def _text(x: float, y: float, text: str, size: int = 11, anchor: str = "start") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(text)}</text>"


if __name__ == "__main__":
    CHART.write_text(chart())
