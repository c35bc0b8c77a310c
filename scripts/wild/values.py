"""What the inputs of an architecture are drawn from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

Draw = Callable[[Generator], Tensor]


def normal(*shape: int, scale: float = 1.0) -> Draw:
    """Draw standard normal values times `scale`."""
    return lambda generator: torch.randn(shape, generator=generator) * scale


def uniform(*shape: int) -> Draw:
    """Draw values from [0, 1)."""
    return lambda generator: torch.rand(shape, generator=generator)


def integers(*shape: int, low: int = 0, high: int) -> Draw:
    """Draw int64 values from `low` to `high` exclusive."""
    return lambda generator: torch.randint(low, high, shape, generator=generator)


def padded(batch: int, length: int, left: bool = False) -> Draw:
    """Return an int64 mask of ones whose last row ends in (or begins with) a quarter of zeros."""

    def draw(_generator: Generator) -> Tensor:
        mask = torch.ones(batch, length, dtype=torch.int64)
        hidden = max(length // 4, 1)
        mask[-1, slice(0, hidden) if left else slice(length - hidden, None)] = 0
        return mask

    return draw


def counting(*shape: int) -> Draw:
    """Return 0, 1, 2, ... along the last axis."""
    return lambda _generator: torch.arange(shape[-1]).expand(shape).contiguous()


def images(batch: int, size: int, channels: int = 3) -> Draw:
    return normal(batch, channels, size, size)


def boxes(batch: int, length: int, corner: int = 9) -> Draw:
    """Draw int64 boxes (left, top, right, bottom), none of a negative extent."""

    def draw(generator: Generator) -> Tensor:
        corners = torch.randint(0, corner, (batch, length, 2, 2), generator=generator)
        return torch.cat([corners.amin(2), corners.amax(2)], -1)

    return draw
