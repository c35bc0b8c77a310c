"""Store identical constants once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from tvm_stitch.frontend.onnx_graph.graph import Graph, bodies

SAMPLE_BYTES = 4096
Key = TypeVar("Key")


def share_constants(graph: Graph) -> None:
    """Let equal constants (dtype, shape, bytes) have one name, the first."""
    outputs = {output.name for output in graph.outputs}
    renamed = {name: first for name, first in find_twins(graph.constants).items()
               if name not in outputs}  # fmt: skip
    rename_inputs(graph.nodes, renamed)
    graph.drop_unused()


def find_twins(arrays: Mapping[Key, np.ndarray]) -> dict[Key, Key]:
    """Return, for each array that equals an earlier one, the earlier one's key."""
    groups: dict[tuple, list[Key]] = {}
    first: dict[Key, Key] = {}
    for key, array in arrays.items():
        group = groups.setdefault(_sample(array), [])
        same = next((other for other in group if _equal(arrays[other], array)), None)
        if same is None:
            group.append(key)
        else:
            first[key] = same
    return first


def rename_inputs(nodes, renamed: dict[str, str]) -> None:
    """Rename values where nodes, and bodies of If, read them."""
    for node in nodes:
        for position, name in enumerate(node.input):
            if name in renamed:
                node.input[position] = renamed[name]
        for body in bodies(node):
            rename_inputs(body.node, renamed)
            for output in body.output:
                output.name = renamed.get(output.name, output.name)


def _sample(array: np.ndarray) -> tuple:
    """Return a key that differs for most different arrays and reads only a few pages."""
    data = _bytes(array)
    middle = len(data) // 2
    digest = hashlib.blake2b(data[:SAMPLE_BYTES])
    digest.update(data[middle : middle + SAMPLE_BYTES])
    digest.update(data[-SAMPLE_BYTES:])
    return array.dtype, array.shape, digest.digest()


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    if one.ctypes.data == other.ctypes.data and one.strides == other.strides:
        return True
    return np.array_equal(_bytes(one), _bytes(other))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
