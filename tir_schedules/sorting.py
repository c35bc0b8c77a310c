"""What a sort is asked for, whichever target runs it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Sort:
    """The `count` first elements of each row along an axis, in order; equal ones as they stood.

    A NaN is larger than everything, as NumPy sorts. `places` is the dtype of the results' positions
    in their rows, None if they are not asked for, as are the elements themselves unless `values`.
    Results are values before places.
    """

    shape: tuple[int, ...]
    axis: int
    count: int
    descending: bool
    dtype: str
    values: bool
    places: str | None

    @property
    def length(self) -> int:
        return self.shape[self.axis]

    @property
    def rows(self) -> int:
        return self.before * self.behind

    @property
    def before(self) -> int:
        return math.prod(self.shape[: self.axis])

    @property
    def behind(self) -> int:
        """The positions behind the axis: so far apart are the elements of a row."""
        return math.prod(self.shape[self.axis + 1 :])

    @property
    def result_shape(self) -> tuple[int, ...]:
        return (*self.shape[: self.axis], self.count, *self.shape[self.axis + 1 :])
