"""Damage to the bytes of a model's file."""

from __future__ import annotations

import random
from collections.abc import Callable

EDGES = (0, 1, 0x7F, 0x80, 0xFF)


def damaged(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return `data` after one to four changes; some splice parts of `other` in."""
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(CHANGES)(data, other, rng)
    return data


def _flip(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    return _with(data, rng, lambda byte: byte ^ 1 << rng.randrange(8))


def _set(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    return _with(data, rng, lambda _: rng.choice(EDGES))


def _with(data: bytes, rng: random.Random, change: Callable[[int], int]) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([change(data[at])]) + data[at + 1 :]


def _truncate(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def _cut(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    start, end = _part(data, rng)
    return data[:start] + data[end:]


def _repeat(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    start, end = _part(data, rng)
    return data[:end] + data[start:]


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    start, end = _part(other, rng)
    at = rng.randint(0, len(data))
    return data[:at] + other[start:end] + data[at:]


def _append(data: bytes, other: bytes, _rng: random.Random) -> bytes:
    """Merge two models: protobuf reads one message behind the other as one."""
    return data + other


def _part(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.randint(0, 40))


CHANGES = (_flip, _flip, _flip, _set, _set, _truncate, _cut, _repeat, _splice, _append)
