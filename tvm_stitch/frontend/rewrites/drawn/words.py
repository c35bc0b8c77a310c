"""Random words of 32 bits, each made of its place and a seed alone: kernels make them where read.

Source: Widynski, Squares: a fast counter-based RNG (arXiv 2004.06278), which needs no xor: operator
sets before 18 have none.
"""

from __future__ import annotations

import zlib

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import attributes

WORD = np.dtype(np.uint64)
_HALF = 32  # bits


def seed_of(node: onnx.NodeProto) -> int:
    """Return a node's seed: its own, or one by the name of what it makes."""
    given = attributes(node).get("seed")
    if given is None:
        return zlib.crc32(node.output[0].encode())
    return int(np.float32(given).view(np.uint32))


def uniform(build: Builder, count: int, seed: int, dtype: np.dtype) -> str:
    """Return so many numbers of [0, 1): float32 in 24 bits, float64 in 53."""
    bits = 53 if dtype == np.float64 else 24
    words = _words(build, count, _key(seed))
    if bits <= _HALF:
        return _fraction(build, words, 64 - bits, bits, dtype)
    high = _fraction(build, words, _HALF, _HALF, dtype)
    low = _words(build, count, _key(seed + (1 << _HALF)))
    return build("Add", high, _fraction(build, low, 64 - bits + _HALF, bits, dtype))


def _fraction(build: Builder, word: str, cut: int, bits: int, dtype: np.dtype) -> str:
    """Return what is left of a word without its low bits, over a power of two."""
    unit = build.constant(2.0**-bits, dtype)
    return build("Mul", build.cast(_high(build, word, cut), dtype), unit)


def _words(build: Builder, count: int, key: int) -> str:
    """Return words of 64 bits, the high half of each random, in one line."""
    step = build.constant(key, WORD)
    first = build("Mul", _places(build, count), step)
    second = build("Add", first, step)
    word = first
    for added in (first, second, first):
        word = _turned(build, build("Add", build("Mul", word, word), added))
    return build("Add", build("Mul", word, word), second)


def _places(build: Builder, count: int) -> str:
    if build.graph.opset < 11:  # it has no Range yet
        return build.constant(np.arange(count), WORD)
    return build.cast(build("Range", *(build.constant(n) for n in (0, count, 1))), WORD)


def _turned(build: Builder, word: str) -> str:
    """Return a word with its halves exchanged."""
    low = build("Mul", word, build.constant(1 << _HALF, WORD))
    return build("Add", low, _high(build, word, _HALF))


def _high(build: Builder, word: str, bits: int) -> str:
    """Return a word without so many low bits; old operator sets have no shift."""
    return build("Div", word, build.constant(1 << bits, WORD))


def _key(seed: int) -> int:
    """Return an odd number of irregular bits (SplitMix64), below 2**63: TVM's are signed."""
    mask, word = (1 << 64) - 1, seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15
    for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (((word & mask) ^ ((word & mask) >> bits)) * factor) & mask
    return ((word ^ (word >> 31)) >> 1) | 1
