"""A kernel as the template reads it, in shared axes: as it is, or with some sums in parts."""

from __future__ import annotations

import functools

from ...analysis.atomize import atomize
from ...analysis.coalesce import coalesce
from ...analysis.iteration_space import Space
from ...kernel_ir.alternatives import alternatives
from ...kernel_ir.stage import Kernel
from ...rewrites.reduced import reduced
from ..plan.decisions import PartDecisions
from .apart import with_terms_apart
from .parts import in_parts
from .tiles import with_tiles


@functools.lru_cache(maxsize=8)
def reading_of(kernel: Kernel) -> Reading:
    """Return the reading of a kernel; whoever asks for the last ones again has the same."""
    return Reading(kernel)


class Reading:
    """What is known of a kernel before anything is decided. Decisions number what it has."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._spaces: dict[tuple[PartDecisions, ...], Space] = {}

    @functools.cached_property
    def has_ways(self) -> bool:
        """Whether the kernel chooses between two ways by a check."""
        return alternatives(self.kernel) is not None

    @functools.cached_property
    def reduced(self) -> Kernel:
        """The stages that are worth a place."""
        return reduced(self.kernel)

    def space(self, parts: tuple[PartDecisions, ...] = ()) -> Space:
        """Return the stages in axes that they share, some sums in so many parts."""
        if parts not in self._spaces:
            kernel = with_tiles(in_parts(self.reduced, parts))
            self._spaces[parts] = coalesce(with_terms_apart(atomize(kernel)))
        return self._spaces[parts]
