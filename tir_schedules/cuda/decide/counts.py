"""In how many parts sums may be added up: about as many as the GPU runs blocks of at a time."""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.kernel_facts import is_large_contraction
from ...device.cuda import WARP, CudaDevice
from ..facts.parts import part_axis
from ..facts.reading import Counts, Reading

_LEAST = 512  # positions of a sum that blocks may share
_WORTH = 1 << 16  # points of a kernel that another launch may be worth
_VECTOR = 4  # numbers


def part_counts(reading: Reading, device: CudaDevice) -> Iterator[Counts]:
    """Yield the sums of few results that several blocks may add up, each in so many parts."""
    seen: set[Counts] = set()
    stages = reading.reduced.stages
    largest = max((s.domain for s in stages), default=0)
    sums = [
        (n, s) for n, s in enumerate(stages)
        if s.reduction is not None and s.domain * 4 >= largest and part_axis(s).extent >= _LEAST
        and not is_large_contraction(s)
    ]  # fmt: skip
    if not sums or largest < _WORTH:
        return
    for waves in (1, 4):
        for share in (1, WARP):  # of results that a block has: one, or columns
            counts = ((n, s, -(-waves * device.sms * share // s.out.elements)) for n, s in sums)
            made = ((n, _even_parts(part_axis(s).extent, c)) for n, s, c in counts if c > 1)
            if (parts := tuple(made)) and parts not in seen:
                seen.add(parts)
                yield parts


def _even_parts(extent: int, count: int) -> int:
    """Return about so many parts, of the same size and whole vectors if there are such."""
    near = [n for n in range(-(-count // 2), 2 * count + 1) if 2 <= n <= extent // 2]
    alike = [n for n in near if extent % n == 0]
    wide = [n for n in alike if extent // n % _VECTOR == 0]
    return min(wide or alike or near or [2], key=lambda n: abs(n - count))
