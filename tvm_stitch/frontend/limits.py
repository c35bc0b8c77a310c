"""How large a tensor may be that a model asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_stitch.errors import StitchError

MOST_BYTES = 1 << 40  # no machine that runs a model has a tebibyte for one tensor
MOST_AXES = 32  # of NumPy before its release 2


def check_size(shape: Sequence[int | None], itemsize: int, given: object) -> None:
    """Raise StitchError for a shape of negative extents, too many axes or too many bytes.

    An unknown extent, None, counts as 1.
    """
    known = [extent for extent in shape if extent is not None]
    if any(extent < 0 for extent in known):
        raise StitchError(
            given, f"shape {_shown(shape)} has a negative extent", "export the model again"
        )
    if len(shape) > MOST_AXES:
        raise StitchError(given, f"it has {len(shape)} axes", f"use {MOST_AXES} at most")
    size = math.prod(known) * itemsize
    # One extent beyond them all overflows TVM's index arithmetic, beside an extent of 0 too.
    if size > MOST_BYTES or max(known, default=0) > MOST_BYTES:
        raise StitchError(
            given,
            f"shape {_shown(shape)} takes more than {MOST_BYTES >> 30} GiB",
            "use smaller shapes",
        )


def _shown(shape: Sequence[int | None]) -> str:
    return (
        "("
        + ", ".join("?" if extent is None else str(extent) for extent in shape[:8])
        + (", ...)" if len(shape) > 8 else ")")
    )
