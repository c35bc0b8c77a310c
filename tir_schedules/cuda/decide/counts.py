"""In how many parts sums may be added up: about as many as the GPU runs blocks of at a time."""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.kernel_facts import is_large_contraction
from ...device.cuda import WARP, CudaDevice
from ...kernel_ir.stage import Stage
from ..facts.parts import part_axis
from ..facts.reading import Counts, Reading

_LEAST = 512  # positions of a sum that blocks may share
_WORTH = 1 << 16  # points of a kernel that another launch may be worth
_SHARES = (1, WARP)  # results that a block has of a sum: one, or columns
_TILES = (32 * 32, 64 * 64)  # of a product
_VECTOR = 4  # numbers that a thread loads at once
_TERMS = 64  # of a step of a product


def part_counts(reading: Reading, device: CudaDevice) -> Iterator[Counts]:
    """Yield the sums of few results that several blocks may add up, each in so many parts."""
    seen: set[Counts] = set()
    stages = reading.reduced.stages
    largest = max((s.domain for s in stages), default=0)
    sums = [
        (n, s) for n, s in enumerate(stages)
        if s.reduction is not None and s.domain * 4 >= largest and part_axis(s).extent >= _LEAST
    ]  # fmt: skip
    if not sums or largest < _WORTH:
        return
    for waves in (1, 4):
        for size in (0, 1):
            made = ((n, _count(s, waves * device.sms, size)) for n, s in sums)
            if (parts := tuple((n, count) for n, count in made if count > 1)) and parts not in seen:
                seen.add(parts)
                yield parts


def _count(stage: Stage, blocks: int, size: int) -> int:
    """Return in how many parts a sum makes so many blocks, each of few results or of more."""
    product = is_large_contraction(stage)
    share = (_TILES if product else _SHARES)[size]
    wanted = -(-blocks * share // stage.out.elements)
    whole = _TERMS if product else _VECTOR
    return 1 if wanted <= 1 else _even_parts(part_axis(stage).extent, wanted, whole)


def _even_parts(extent: int, count: int, whole: int) -> int:
    """Return about so many parts, of the same size and whole vectors if there are such."""
    near = [n for n in range(-(-count // 2), 2 * count + 1) if 2 <= n <= extent // 2]
    alike = [n for n in near if extent % n == 0]
    wide = [n for n in alike if extent // n % whole == 0]
    return min(wide or alike or near or [2], key=lambda n: abs(n - count))
