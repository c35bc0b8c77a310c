"""An einsum of two operands as a product of matrices, and the order of axes that moves least."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .equation import Labels

# The labels that share an axis, for each axis.
Groups = tuple[Labels, ...]


@dataclass(frozen=True)
class Operand:
    """The labels of an operand that count, and whether its layout is made at compile time."""

    labels: Labels
    is_weight: bool


@dataclass(frozen=True)
class Product:
    """left[lead, batch, rows, depth] @ right[batch, depth, columns].

    `lead` may be the right side's instead. `swapped`: the second operand is the left side.
    """

    swapped: bool
    left_lead: Labels
    right_lead: Labels
    batch: Labels
    rows: Labels
    columns: Labels
    depth: Labels

    @property
    def left(self) -> Groups:
        return (*apart(self.left_lead + self.batch), self.rows, self.depth)

    @property
    def right(self) -> Groups:
        return (*apart(self.right_lead + self.batch), self.depth, self.columns)

    @property
    def made(self) -> Groups:
        return (*apart(self.left_lead + self.right_lead + self.batch), self.rows, self.columns)


@dataclass(frozen=True)
class Contraction:
    """An einsum, each label of `extents` elements in all that have it."""

    operands: tuple[Operand, Operand]
    result: Labels
    extents: Mapping[str, int]

    def cheapest(self) -> Product:
        """Return the product for which the fewest elements are moved when the model runs.

        Of equals it is one with a weight on the right, then that with the fewest reshapes.
        """
        return min(self._products(), key=self._cost)

    def is_better_alone(self, product: Product) -> bool:
        """Return whether the einsum's own loops have lanes, and what is moved would lose them.

        Each operand then lies along the result's last axis, or does not have it.
        """
        last = self.long(self.result)[-1:]
        given = [self.long(operand.labels) for operand in self.operands]
        if any(labels[-1:] != last and set(last) & set(labels) for labels in given):
            return False
        return any(
            self.long(have)[-1:] != self.long(flat(groups))[-1:]
            for have, groups in self._moved(product)
        )

    def moves(self, have: Labels, groups: Groups) -> bool:
        """Return whether elements lie elsewhere with other axes."""
        return self.long(have) != self.long(flat(groups))

    def shape(self, groups: Groups) -> tuple[int, ...]:
        return tuple(self._elements(group) for group in groups)

    def long(self, labels: Labels) -> list[str]:
        return [label for label in labels if self.extents[label] > 1]

    def _elements(self, labels: Labels) -> int:
        return math.prod(self.extents[label] for label in labels)

    def _moved(self, product: Product) -> list[tuple[Labels, Groups]]:
        """Return the axes that tensors have and get, of those not laid out at compile time."""
        left, right = self.operands[::-1] if product.swapped else self.operands
        pairs = [(flat(product.made), apart(self.result))]
        pairs += [(left.labels, product.left)] * (not left.is_weight)
        return pairs + [(right.labels, product.right)] * (not right.is_weight)

    def _cost(self, product: Product) -> tuple[int, bool, int]:
        left, right = self.operands[::-1] if product.swapped else self.operands
        pairs = self._moved(product)
        elements = sum(self._elements(have) for have, want in pairs if self.moves(have, want))
        reshapes = (apart(left.labels) != product.left) + (apart(right.labels) != product.right)
        reshapes += apart(self.result) != product.made
        return elements, left.is_weight and not right.is_weight, reshapes

    def _products(self) -> Iterator[Product]:
        result = self.result
        for swapped in (False, True):
            left, right = (o.labels for o in (self.operands[::-1] if swapped else self.operands))
            both, given = set(left) & set(right), set(result)
            rows, columns = set(left) - both, set(right) - both
            leads = [((), ()), (_front(result, rows), ()), ((), _front(result, columns))]
            for left_lead, right_lead in dict.fromkeys(leads):
                orders = itertools.product(
                    _orders(both & given, result, left, right),
                    _orders(rows - set(left_lead), result, left),
                    _orders(columns - set(right_lead), result, right),
                    _orders(both - given, left, right),
                )
                for batch, inner, outer, depth in orders:
                    # Without a batch a product takes as many axes of rows as there are.
                    more = () if batch or left_lead or right_lead else inner[:-1]
                    kept = inner[len(more) :]
                    yield Product(swapped, left_lead + more, right_lead, batch, kept, outer, depth)


def flat(groups: Groups) -> Labels:
    return tuple(itertools.chain.from_iterable(groups))


def apart(labels: Labels) -> Groups:
    return tuple((label,) for label in labels)


def _front(result: Labels, free: set[str]) -> Labels:
    """Return the labels of one side that the result begins with, if they are not all it has."""
    front = tuple(itertools.takewhile(free.__contains__, result))
    return front if len(front) < len(free) else ()


def _orders(labels: set[str], *orders: Labels) -> list[Labels]:
    found = (tuple(label for label in order if label in labels) for order in orders)
    return list(dict.fromkeys(found))
