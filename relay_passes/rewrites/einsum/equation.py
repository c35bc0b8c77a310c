"""What an einsum's subscripts say: a label for each axis of its operands and of its result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

# A letter, or "." and the place from the last of those that an ellipsis stands for.
Labels = tuple[str, ...]

_TERM = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


@dataclass(frozen=True)
class Equation:
    operands: tuple[Labels, ...]
    result: Labels


def parse(subscripts: str, ranks: Sequence[int]) -> Equation | None:
    """Return the labels of an einsum on operands of such ranks.

    None if it has no meaning, or one that only TVM gives it: to sum over the axes of an ellipsis.

    rewrite: "...ij,jk" of ranks 3 and 2 -> (.0, i, j), (j, k) -> (.0, i, k)
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        return None
    operands = [_labels(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    if None in operands:
        return None
    dots = tuple(max((_dots(labels) for labels in operands), key=len))
    if not arrow:
        counts = Counter(label for labels in operands for label in labels if label[0] != ".")
        once = sorted(label for label, count in counts.items() if count == 1)
        return Equation(tuple(operands), (*dots, *once))
    named = len(output) - len("...") if "..." in output else len(output)
    result = _labels(output, named + len(dots))
    known = {label for labels in operands for label in labels}
    if result is None or len(set(result)) < len(result) or not known.issuperset(result):
        return None
    return Equation(tuple(operands), result)


def _labels(term: str, rank: int) -> Labels | None:
    match = _TERM.fullmatch(term)
    if match is None:
        return None
    before, dots, behind = match.groups()
    more = rank - len(before) - len(behind)
    if more < 0 or (more and not dots):
        return None
    return (*before, *(f".{place}" for place in reversed(range(more))), *behind)


def _dots(labels: Labels) -> list[str]:
    return [label for label in labels if label[0] == "."]
