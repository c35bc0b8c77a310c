"""A kernel as the template reads it: its usual way, in shared axes, and what stands beside that."""

from __future__ import annotations

import functools

from ...analysis.atomize import atomize
from ...analysis.coalesce import coalesce
from ...analysis.iteration_space import Space
from ...kernel_ir.alternatives import Alternatives, alternatives
from ...kernel_ir.stage import Kernel
from ...patterns.match_attention import Attention, find_attention
from ...rewrites.reduced import reduced


@functools.lru_cache(maxsize=8)
def reading_of(kernel: Kernel) -> Reading:
    """Return the reading of a kernel; whoever asks for the last ones again has the same."""
    return Reading(kernel)


class Reading:
    """What is known of a kernel before anything is decided, each part found when it is asked for.

    Decisions number the nodes and axes of a reading: the same for each reading of a kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @functools.cached_property
    def ways(self) -> Alternatives | None:
        """The two ways of a kernel that chooses between them by a check, None if it does not."""
        return alternatives(self.kernel)

    @functools.cached_property
    def check(self) -> Reading:
        return Reading(self.ways.check)

    @functools.cached_property
    def usual(self) -> Reading:
        return Reading(self.ways.usual)

    @functools.cached_property
    def other(self) -> Reading | None:
        return None if self.ways.other is None else Reading(self.ways.other)

    @functools.cached_property
    def attention(self) -> Attention | str:
        """The attention that a kernel is, or why it is none."""
        return find_attention(self.kernel)

    @functools.cached_property
    def space(self) -> Space:
        """The stages that are worth a place, in axes that they share."""
        return coalesce(atomize(reduced(self.kernel)))
