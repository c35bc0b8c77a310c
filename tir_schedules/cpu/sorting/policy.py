"""How sorts are run: none of it changes a result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SortPolicy:
    """Sizes and times that suit x86 CPUs.

    Up to `counted` elements are put in order by counting, for each, how many come before it, in
    vectors; more by the bytes of their keys. Where few of a row are kept, `groups` times as many
    groups, whole vectors of `lanes`, bound them, if each has as many as `members`; several vectors,
    `long_lanes`, of rows that are `long`, for each waits for itself. Blocks up to `widest` are
    looked at if their least element is before the bound, which takes as long as `looked` elements.
    What is found has room for `spare` beside the groups, or twice what is kept, until it is sorted.

    Times, by hand on a Zen 5 with AVX-512, branches that can't be foreseen among them: an element
    that is passed over takes `passed_ns`, one that is compared with another `counted_ns`, one that
    is found `found_ns`, one that is sorted `byte_ns` a byte of its key.
    """

    counted: int = 128
    groups: int = 2
    lanes: int = 16
    long: int = 4000
    long_lanes: int = 64
    members: int = 3
    looked: float = 4.0
    widest: int = 128
    spare: int = 128
    passed_ns: float = 0.3
    counted_ns: float = 0.1
    found_ns: float = 20.0
    byte_ns: float = 1.5


SORTS = SortPolicy()
