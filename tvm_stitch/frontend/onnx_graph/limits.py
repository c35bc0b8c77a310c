"""How large a tensor may be that a model asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_stitch.errors import StitchError

MOST_BYTES = 1 << 40  # no machine that runs a model has a tebibyte for one tensor
MOST_EXTENT = (1 << 31) - 1  # TVM's loops count in 32 bits
MOST_AXES = 32  # of NumPy before its release 2

MOST_TABLE = 1 << 24  # elements of what a rewrite computes beforehand


def check_size(shape: Sequence[int | None], itemsize: int, given: object) -> None:
    """Raise StitchError for a shape of negative extents, too many axes, elements or bytes.

    An unknown extent, None, counts as 1.
    """
    known = [extent for extent in shape if extent is not None]
    if any(extent < 0 for extent in known):
        raise StitchError(
            given, f"shape {_shown(shape)} has a negative extent", "export the model again"
        )
    if len(shape) > MOST_AXES:
        raise StitchError(given, f"it has {len(shape)} axes", f"use {MOST_AXES} at most")
    if max(known, default=0) > MOST_EXTENT:
        raise StitchError(
            given, f"shape {_shown(shape)} has an extent above {MOST_EXTENT}", "use smaller shapes"
        )
    # NumPy and TVM multiply the extents beside one of 0 too.
    if math.prod(extent or 1 for extent in known) * itemsize > MOST_BYTES:
        raise StitchError(
            given,
            f"shape {_shown(shape)} takes more than {MOST_BYTES >> 30} GiB",
            "use smaller shapes",
        )


def _shown(shape: Sequence[int | None]) -> str:
    extents = ["?" if extent is None else str(extent) for extent in shape[:8]]
    return f"({', '.join(extents)}{', ...' * (len(shape) > 8)})"
