"""The models that tests and benchmarks use: ONNX built by hand, seeded random weights.

Run `python scripts/zoo.py --list` for the names.
"""

from zoo.inputs import random_inputs, static_shape, traffic_bytes
from zoo.models import MODELS, SMALL, model
from zoo.subgraphs import SUBGRAPHS, Subgraph, bench_shapes, reference, subgraph
from zoo.traps import TRAPS

__all__ = [
    "MODELS",
    "SMALL",
    "SUBGRAPHS",
    "TRAPS",
    "Subgraph",
    "bench_shapes",
    "model",
    "random_inputs",
    "reference",
    "static_shape",
    "subgraph",
    "traffic_bytes",
]
