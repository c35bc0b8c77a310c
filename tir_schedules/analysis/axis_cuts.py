"""Where axes are cut: a divisibility chain each, and equal across links."""

from __future__ import annotations

from ..kernel_ir.expr import Axis
from ..kernel_ir.stage import Kernel, flat_index
from .axis_links import Link


class Cuts:
    """Cut positions of every axis, kept a divisibility chain and equal across links."""

    def __init__(self, links: list[Link]) -> None:
        self.cuts: dict[Axis, set[int]] = {}
        self._segments: dict[Axis, list[tuple[int, int]]] = {}
        self._links: dict[Axis, list[Link]] = {}
        for link in links:
            self._links.setdefault(link.left, []).append(link)
            self._links.setdefault(link.right, []).append(link)

    def try_add(self, wanted: list[tuple[Axis, int]]) -> bool:
        """Add cuts and all that follow from them, or nothing if a chain would break."""
        added: list[tuple[Axis, int]] = []
        queue = list(wanted)
        while queue:
            axis, low = queue.pop()
            have = self.cuts.setdefault(axis, set())
            if low <= 1 or low >= axis.extent or low in have:
                continue
            chain = (*have, axis.extent)
            if any(low % c and c % low for c in chain) or axis.extent % low:
                for a, c in added:
                    self.cuts[a].discard(c)
                    self._segments.pop(a, None)
                return False
            have.add(low)
            self._segments.pop(axis, None)
            added.append((axis, low))
            for link in self._links.get(axis, ()):
                here, there = (link.left_low, link.right_low)
                other = link.right
                if axis is link.right:
                    here, there, other = there, here, link.left
                if here < low < here * link.extent and low % here == 0:
                    queue.append((other, there * (low // here)))
        return True

    def try_join(self, link: Link) -> bool:
        """Register a whole-axis link and equalise the cuts of its ends, or leave both alone."""
        self._links.setdefault(link.left, []).append(link)
        self._links.setdefault(link.right, []).append(link)
        both = {*self.cuts.get(link.left, ()), *self.cuts.get(link.right, ())}
        if self.try_add([(axis, c) for axis in (link.left, link.right) for c in both]):
            return True
        self._links[link.left].remove(link)
        self._links[link.right].remove(link)
        return False

    def segments(self, axis: Axis) -> list[tuple[int, int]]:
        """Return the (low, extent) pieces of an axis, outermost first; none for extent 1."""
        if axis.extent == 1:
            return []
        if axis not in self._segments:
            lows = sorted({1, *self.cuts.get(axis, ())})
            ends = [*lows[1:], axis.extent]
            found = [(low, end // low) for low, end in zip(lows, ends, strict=True)]
            self._segments[axis] = found[::-1]
        return self._segments[axis]


def cut_axes(kernel: Kernel, links: list[Link]) -> Cuts:
    cuts = Cuts(links)
    for link in links:
        ends = [(link.left, link.left_low), (link.left, link.left_low * link.extent)]
        ends += [(link.right, link.right_low), (link.right, link.right_low * link.extent)]
        cuts.try_add(ends)
    for stage in kernel.stages:
        for load in stage.loads():
            for term in flat_index(load.tensor, load.index).terms:
                if isinstance(term.base, Axis) and term.extent:
                    cuts.try_add([(term.base, term.low), (term.base, term.low * term.extent)])
    return cuts


def segment_pairs(group: list[Link], cuts: Cuts) -> list | None:
    pairs = []
    for link in group:
        left = _inside(cuts.segments(link.left), link.left_low, link.extent)
        right = _inside(cuts.segments(link.right), link.right_low, link.extent)
        if left is None or right is None or len(left) != len(right):
            return None
        for (low_l, ext_l), (low_r, ext_r) in zip(left, right, strict=True):
            if ext_l != ext_r:
                return None
            pairs.append(((link.left, low_l), (link.right, low_r)))
    return pairs


def _inside(segments: list[tuple[int, int]], low: int, extent: int) -> list | None:
    """Return the segments that tile [low, low * extent), None if a boundary is missing."""
    if extent == 1:
        return []
    inner = [(lo, ext) for lo, ext in segments if low <= lo and lo * ext <= low * extent]
    covered = 1
    for _, ext in inner:
        covered *= ext
    return inner if covered == extent else None
