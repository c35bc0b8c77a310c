"""How sorts are run: none of it changes a result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SortPolicy:
    """Sizes and times that suit x86 CPUs.

    Up to `counted` elements are put in order by counting, for each, how many come before it, in
    vectors; more by the bytes of their keys. Up to `inserted` that are kept stay in order as
    candidates come; of more, `block`s of candidates wait, `spare` of them or as many as are kept,
    and are sorted at once. A block is looked at if its least element comes before the last kept.

    An element of a row takes `element_ns` (Zen 5). Long rows are cut if each part has `share` times
    what is kept.
    """

    counted: int = 128
    inserted: int = 32
    block: int = 32
    spare: int = 4
    element_ns: float = 1.0
    share: int = 16


SORTS = SortPolicy()
