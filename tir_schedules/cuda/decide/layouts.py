"""Blocks and threads along axes: sizes to choose from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...analysis.iteration_space import Atom, Space
from ...device.cuda import MOST_THREADS
from ..facts.accesses import vector_width
from .axes import Views, accesses
from .policy import BLOCKS


def widths(atoms: Sequence[Atom], space: Space) -> list[int]:
    """Return how many positions along an axis a thread may have side by side, most first."""
    params = set(space.kernel.params)
    widest = 1
    for access in accesses(space):
        for atom in atoms:
            if access.tensor in params and access.strides.get(atom, 0) == 1:
                widest = max(widest, vector_width(access, atom))
    found = [w for w in (8, 4, 2, 1) if w <= widest and not any(a.extent % w for a in atoms)]
    return found[:2] + ([1] if 1 not in found[:2] else [])


def layouts(
    axes: Sequence[Views], cuttable: Sequence[bool], order: Sequence[int], width: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield positions of a block and threads, axis by axis."""
    extents = [math.prod(a.extent for a in axis[0]) for axis in axes]
    fastest = order[-1]
    seen = set()
    most = next_power(-(-extents[fastest] // width))
    for along in (1 << n for n in range(MOST_THREADS.bit_length())):
        if not min(most, BLOCKS.sector // width) <= along <= most:
            continue
        for total in BLOCKS.threads:
            if total < along:
                continue
            for trips in BLOCKS.trips if cuttable[fastest] else (0,):
                blocks = [1 if cut else n for cut, n in zip(cuttable, extents, strict=True)]
                threads = [1] * len(axes)
                threads[fastest] = along
                if trips:
                    blocks[fastest] = min(extents[fastest], along * width * trips)
                left = total // along
                for n in reversed(order[:-1]):
                    share = min(left, next_power(extents[n]))
                    if cuttable[n]:
                        blocks[n] = min(share, extents[n])
                    threads[n] = share
                    left //= share
                if (made := (*blocks, *threads)) not in seen:
                    seen.add(made)
                    yield blocks, threads


def next_power(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()
