"""Casts to narrow types: integers keep their low bits, floats are rounded to the nearest."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes
from tvm_stitch.frontend.onnx_graph.narrow import Narrow, narrow_type


def narrow_cast(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Cast(x, float8) -> Round(x / step) * step, step by the power of two below |x|"""
    if node.op_type != "Cast" or node.domain:
        return None
    attrs = attributes(node)
    known = narrow_type(attrs["to"])
    if known is None or graph.type_of(node.input[0]) is None:
        return None
    build = Builder(graph, node)
    graph.narrow[node.output[0]] = known.dtype.name
    if known.is_integer:
        _low_bits(build, node.input[0], known, node.output[0])
    else:
        rounded = rounded_to(build, node.input[0], known, bool(attrs.get("saturate", 1)))
        build("Identity", rounded, out=node.output[0])
    return build.nodes


def _low_bits(build: Builder, value: str, known: Narrow, out: str) -> None:
    """Make (x - least) mod 2^bits + least, of x without its fraction."""
    low, high = known.limits
    whole = build.cast(value, np.int32)
    least, count = build.constant(low, np.int32), build.constant(high - low + 1, np.int32)
    rest = build("Mod", build("Sub", whole, least), count)
    build.cast(build("Add", rest, least), known.wide, out=out)


def rounded_to(build: Builder, value: str, known: Narrow, saturate: bool) -> str:
    """Return float32 numbers that a narrow float type has.

    Halves go to even. What is beyond the largest becomes it, or infinity or NaN if the type has
    that and it does not saturate; a NaN stays one, or is 0 where there is none.
    """
    limits, x = ml_dtypes.finfo(known.dtype), build.cast(value, np.float32)
    least, digits = int(limits.minexp), int(limits.nmant)
    top = math.frexp(float(limits.max))[1] - 1
    size = build("Abs", x)
    step = build.constant(2.0 ** (least - digits), np.float32)
    for exponent in range(least + 1, top + 1):
        more = build.constant(2.0 ** (exponent - 1 - digits), np.float32)
        below = build("Less", size, build.constant(2.0**exponent, np.float32))
        step = build("Add", step, build("Where", below, _zero(build), more))
    whole = build("Mul", build("Round", build("Div", size, step)), step)
    most = build.constant(float(limits.max), np.float32)
    beyond = build("Greater", whole, most)
    over = math.inf if known.dtype == ml_dtypes.float8_e5m2 else math.nan
    if saturate or known.bits == 4:
        over = float(limits.max)
    held = build("Where", beyond, build.constant(over, np.float32), whole)
    below = build("Less", x, _zero(build))
    made = build("Where", below, build("Neg", held), held)
    if known.dtype.name.endswith("fnuz"):
        made = build("Add", made, _zero(build))  # of which there is one only
    missing = build.constant(0.0 if known.bits == 4 else math.nan, np.float32)
    return build("Where", build("IsNaN", x), missing, made)


def _zero(build: Builder) -> str:
    return build.constant(0, np.float32)
