"""Which axes of a kernel's stages run together, digit by digit."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernel_ir.expr import Axis, Load, Tensor, Term
from ..kernel_ir.index import normalize
from ..kernel_ir.stage import Kernel, Stage


@dataclass(frozen=True)
class Link:
    """`left[left_low : *extent]` runs together with `right[right_low : *extent]`."""

    left: Axis
    left_low: int
    right: Axis
    right_low: int
    extent: int


def shared_inputs(kernel: Kernel, made: dict[Tensor, Stage]) -> list[Link]:
    """Return links between axes by which two stages walk one dimension of the same input."""
    first: dict[tuple[Tensor, int], Axis] = {}
    out: list[Link] = []
    for stage in kernel.stages:
        for load in stage.loads():
            if load.tensor in made:
                continue
            for dim, expr in enumerate(load.index):
                index = normalize(expr)
                if index.const or len(index.terms) != 1:
                    continue
                term = index.terms[0]
                if term != Term(1, term.base, 1, load.tensor.shape[dim]):
                    continue
                if not isinstance(term.base, Axis) or term.base.extent != term.extent:
                    continue
                other = first.setdefault((load.tensor, dim), term.base)
                if other is not term.base:
                    out.append(Link(other, 1, term.base, 1, term.extent))
    return out


def links_of(producer: Stage, load: Load, dim: int) -> list[Link] | None:
    """Return how dimension `dim` of the producer runs with the reader's axes, None if loosely."""
    home = normalize(producer.out_index[dim])
    extent = producer.out.shape[dim]
    index = normalize(load.index[dim])
    if not home.terms and extent == 1:
        return []
    if len(home.terms) != 1 or home.const or not isinstance(home.terms[0].base, Axis):
        return None
    axis, out, weight = home.terms[0].base, [], 1
    if home.terms[0] != Term(1, axis, 1, axis.extent) or axis.extent != extent:
        return None
    if index.const:
        return None
    for term in sorted(index.terms, key=lambda t: t.scale):
        if not isinstance(term.base, Axis) or not term.extent or term.scale != weight:
            return None
        out.append(Link(axis, weight, term.base, term.low, term.extent))
        weight *= term.extent
    return out if weight == extent else None
