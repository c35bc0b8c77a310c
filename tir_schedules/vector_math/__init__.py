"""Math functions as vector arithmetic in TIR: `lower` rewrites calls, `nan_max` keeps NaN."""

from .lower import FUNCTIONS, lower
from .materialise import materialise_lets
from .minmax import nan_max, nan_min
from .opaque import opaque_one, opaque_zero

__all__ = [
    "FUNCTIONS",
    "lower",
    "materialise_lets",
    "nan_max",
    "nan_min",
    "opaque_one",
    "opaque_zero",
]
