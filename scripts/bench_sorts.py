"""Time TopK, of few elements and of whole rows, against ONNX Runtime and OpenVINO.

python scripts/bench_sorts.py                   # docs/results/bench_sorts.{json,md}
python scripts/bench_sorts.py --names top --threads 1

Each is run on the same numbers again and again: branches that depend on them are foreseen, which
flatters who has many.
"""

from __future__ import annotations

from functools import partial

import onnx
from bench_compute import Bars, Case, run
from zoo.graph import Graph

BARS = Bars(best=1.2, row=0.9, share=0.0)
SHAPES = [
    ((128, 8), 1, 2),
    ((4096, 64), 1, 6),
    ((64, 1000), 1, 5),
    ((1000, 64), 0, 5),
    ((1, 8400), 1, 1000),
    ((1, 30000), 1, 5),
    ((1, 30000), 1, 300),
    ((8, 50257), 1, 50),
    ((1, 1000000), 1, 100),
    ((64, 1000), 1, 1000),
    ((1, 30000), 1, 30000),
]


def model(shape: tuple[int, ...], axis: int, count: int) -> onnx.ModelProto:
    """Return the values and places of the largest `count` along an axis."""
    graph = Graph("topk")
    x = graph.input("x", shape)
    outputs = graph.op("TopK", x, graph.ints(count), outputs=2, axis=axis)
    out = (*shape[:axis], count, *shape[axis + 1 :])
    graph.output(outputs[0], "values", out)
    graph.output(outputs[1], "places", out, "int64")
    return graph.model()


def case(shape: tuple[int, ...], axis: int, count: int) -> Case:
    name = "sort" if count == shape[axis] else "top"
    sizes = f"{count} of {' x '.join(map(str, shape))} along axis {axis}"
    return Case(name, sizes, 0, partial(model, shape, axis, count))


CASES = [case(*each) for each in SHAPES]

if __name__ == "__main__":
    run("bench_sorts", "Sorts", __doc__.splitlines()[0], CASES, BARS)
