"""In how many parts sums may be added up: about as many as the GPU runs blocks of at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...analysis.kernel_facts import is_large_contraction
from ...device.cuda import CudaDevice
from ...kernel_ir.expr import Axis
from ...kernel_ir.stage import Stage
from ..facts.centred_rows import centred_rows
from ..facts.parts import followers
from ..facts.reading import Reading
from ..plan.decisions import PartDecisions
from .policy import BLOCKS


def part_counts(reading: Reading, device: CudaDevice) -> Iterator[tuple[PartDecisions, ...]]:
    """Yield the sums of few results that several blocks may add up, each in so many parts."""
    seen: set[tuple[PartDecisions, ...]] = set()
    stages, led = reading.reduced.stages, followers(reading.reduced)
    follow = {stage for sums in led.values() for stage in sums}
    domain = {s: max(each.domain for each in (s, *led.get(s, ()))) for s in stages}
    largest = max(domain.values(), default=0)
    sums = [
        (n, s) for n, s in enumerate(stages)
        if s.reduction is not None and s not in follow and domain[s] * 4 >= largest
        and _cut_axis(s).extent >= BLOCKS.long_sum
    ]  # fmt: skip
    if not sums or largest < BLOCKS.worth:
        return
    for waves in BLOCKS.waves:
        for size in range(len(BLOCKS.share)):
            made = (_part(n, s, waves * device.sms, size) for n, s in sums)
            if (parts := tuple(part for part in made if part.count > 1)) and parts not in seen:
                seen.add(parts)
                yield parts


def row_counts(reading: Reading) -> Iterator[tuple[PartDecisions, ...]]:
    """Yield rows of exps that products read, each in parts that a block has room for."""
    stages, led = reading.reduced.stages, followers(reading.reduced)
    numbers = [n for n, s in enumerate(stages) if any(map(is_large_contraction, led.get(s, ())))]
    for length in BLOCKS.row_parts:
        long = [n for n in numbers if stages[n].reduced[0].extent > length]
        if not long:
            return
        extents = [stages[n].reduced[0].extent for n in long]
        counts = (_even_parts(extent, -(-extent // length), BLOCKS.terms) for extent in extents)
        yield tuple(PartDecisions(n, 0, count) for n, count in zip(long, counts, strict=True))


def centred_counts(reading: Reading) -> Iterator[tuple[PartDecisions, ...]]:
    """Yield totals of longer rows than a block holds, each in parts that it has room for."""
    stages, rows = reading.reduced.stages, centred_rows(reading.reduced)
    held = max(BLOCKS.threads) * max(BLOCKS.holds)
    long = [n for n, s in enumerate(stages) if s in rows and _terms(s) > held]
    for length in BLOCKS.centred_parts if long else ():
        yield tuple(_near(n, stages[n], length) for n in long)


def _near(number: int, stage: Stage, length: int) -> PartDecisions:
    """Return in how many parts of about so many terms a sum is."""
    axis = _cut_axis(stage)
    count = _even_parts(axis.extent, -(-_terms(stage) // length), BLOCKS.vector)
    return PartDecisions(number, stage.reduced.index(axis), count)


def _terms(stage: Stage) -> int:
    return math.prod(axis.extent for axis in stage.reduced)


def _cut_axis(stage: Stage) -> Axis:
    """Return the axis of a sum that is cut: the first long one, or the longest."""
    longest = max(stage.reduced, key=lambda axis: axis.extent)
    return next((axis for axis in stage.reduced if axis.extent >= BLOCKS.long_axis), longest)


def _part(number: int, stage: Stage, blocks: int, size: int) -> PartDecisions:
    """Return in how many parts a sum makes so many blocks, each of few results or of more."""
    product, axis = is_large_contraction(stage), _cut_axis(stage)
    share = (BLOCKS.product_share if product else BLOCKS.share)[size]
    wanted = -(-blocks * share // stage.out.elements)
    whole = BLOCKS.terms if product else BLOCKS.vector
    count = 1 if wanted <= 1 else _even_parts(axis.extent, wanted, whole)
    return PartDecisions(number, stage.reduced.index(axis), count)


def _even_parts(extent: int, count: int, whole: int) -> int:
    """Return about so many parts, of the same size and whole vectors if there are such."""
    near = [n for n in range(-(-count // 2), 2 * count + 1) if 2 <= n <= extent // 2]
    alike = [n for n in near if extent % n == 0]
    wide = [n for n in alike if extent // n % whole == 0]
    return min(wide or alike or near or [2], key=lambda n: abs(n - count))
