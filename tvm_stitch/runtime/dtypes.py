"""The element types a model may have at its edge, in NumPy's and DLPack's words."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np

# DLDataTypeCode, dlpack.h.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT_CODE = 4


@functools.cache
def numpy_dtype(name: str) -> np.dtype:
    """Return the NumPy dtype TVM calls `name`.

    Raises: TypeError if NumPy with ml_dtypes has none.
    """
    return np.dtype(getattr(ml_dtypes, name, name))


@functools.cache
def dlpack_dtype(dtype: np.dtype) -> tuple[int, int]:
    """Return DLPack's (type code, bits) of a NumPy dtype.

    Raises: KeyError for a dtype DLPack cannot say.
    """
    if dtype == ml_dtypes.bfloat16:
        return _BFLOAT_CODE, 16
    return _CODES[dtype.kind], dtype.itemsize * 8
