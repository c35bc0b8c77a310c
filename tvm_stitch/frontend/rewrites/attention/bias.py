"""What is added to the scores of an attention: 0 where a query attends to a key, -inf elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import attributes, has_input

MASK, PAST_KEY, KEPT = 3, 4, 6  # inputs


@dataclass(frozen=True)
class Bias:
    """A bias of (batch, heads, queries, keys), which it broadcasts to.

    `may_hide`: some row may be all -inf.
    """

    value: str
    may_hide: bool


def bias_of(
    build: Builder, node: onnx.NodeProto, queries: int, keys: int, past: int, dtype: np.dtype
) -> Bias | None:
    """Return the bias of mask, causal order, windows and padding, None if all keys count.

    A query, at its place behind the past, sees keys up to its own place; with `nonpad_kv_seqlen` a
    batch's last query stands at its last key.
    """
    attrs = attributes(node)
    has_lengths = has_input(node, KEPT)
    parts: list[str] = []
    rows, columns = np.arange(queries)[:, None], np.arange(keys)[None]
    low, high = _ends(attrs)
    if (low, high) != (math.inf, math.inf):
        if has_lengths and not has_input(node, PAST_KEY):
            lengths = build.reshape(node.input[KEPT], [-1, 1, 1, 1])
            ahead = build("Sub", build.constant(columns - rows + queries), lengths)
            parts += _within(build, ahead, low, high)
        else:
            # Numbers of rows and of columns, not of both: a table of them may be larger than keys.
            at = build.constant(columns)
            if high < math.inf:
                parts.append(build("Less", at, build.constant(rows + past + int(high) + 1)))
            if low < math.inf:
                parts.append(build("Greater", at, build.constant(rows + past - int(low) - 1)))
    if has_lengths:
        lengths = build.reshape(node.input[KEPT], [-1, 1, 1, 1])
        parts.append(build("Less", build.constant(np.arange(keys)), lengths))
    added = _mask(build, node, keys, parts)
    seen = _all(build, parts)
    if seen is None and added is None:
        return None
    hidden = build.constant(-math.inf, dtype)
    if seen is not None:
        zero = build.constant(0, dtype) if added is None else added
        added = build("Where", seen, zero, hidden)
    # Without a mask, and with no key too many, each query sees at least its own place.
    return Bias(added, has_input(node, MASK) or has_lengths)


def _ends(attrs: dict) -> tuple[float, float]:
    """Return how many keys behind its own place, and before it, a query sees."""
    low, high = (attrs.get(f"{side}_window_size", -1) for side in ("left", "right"))
    low, high = (math.inf if end < 0 else end for end in (low, high))
    return low, min(high, 0) if attrs.get("is_causal", 0) else high


def _within(build: Builder, ahead: str, low: float, high: float) -> list[str]:
    found = []
    if high < math.inf:
        found.append(build("Less", ahead, build.constant(high + 1)))
    if low < math.inf:
        found.append(build("Greater", ahead, build.constant(-low - 1)))
    return found


def _mask(build: Builder, node: onnx.NodeProto, keys: int, parts: list[str]) -> str | None:
    """Return the mask's numbers, None of truth values, which are one of the parts.

    A mask of fewer keys hides the others.
    """
    if not has_input(node, MASK):
        return None
    mask, shape = node.input[MASK], build.graph.static_shape(node.input[MASK])
    dtype = build.graph.type_of(mask).dtype
    if shape[-1] < keys:
        rest = (*shape[:-1], keys - shape[-1])
        fill = np.zeros(rest, bool) if dtype == np.bool_ else np.full(rest, -np.inf)
        mask = build("Concat", mask, build.constant(fill, dtype), axis=-1)
    if dtype != np.bool_:
        return mask
    parts.append(mask)
    return None


def _all(build: Builder, parts: list[str]) -> str | None:
    if not parts:
        return None
    first, *rest = parts
    for part in rest:
        first = build("And", first, part)
    return first
