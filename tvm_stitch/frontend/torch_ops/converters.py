"""Every converter of ours, by PyTorch's names of operators."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .arithmetic import ARITHMETIC
from .bags import BAGS
from .compared import Convert
from .experts import EXPERTS
from .indexing import INDEXING
from .lenient import LENIENT
from .pointwise import POINTWISE
from .recurrent import RECURRENT
from .reductions import REDUCTIONS
from .resampling import RESAMPLING
from .scattered import SCATTERED
from .spectra import OF_CONJUGATES
from .windows import WINDOWS

CONVERTERS = {
    **ARITHMETIC, **BAGS, **EXPERTS, **INDEXING, **LENIENT, **POINTWISE, **RECURRENT,
    **REDUCTIONS, **RESAMPLING, **SCATTERED, **WINDOWS, **OF_CONJUGATES,
}  # fmt: skip


def with_copies(converters: Mapping[str, Convert]) -> dict[str, Convert]:
    """Return converters, those of views also for the operators that copy: view_copy is view."""
    found = dict(converters)
    for name, convert in converters.items():
        base, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, f"{base}_copy", None)
        if overload in (() if packet is None else packet.overloads()):
            found.setdefault(f"{base}_copy.{overload}", convert)
    return found
