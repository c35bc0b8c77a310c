"""Arrays of named tensors as .npy files."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import numpy as np

from tvm_stitch.errors import StitchError


def file_name(name: str) -> str:
    """Return the name of a tensor's file: one such as /encoder/Add_output_0 is no path."""
    return f"{quote(name, safe=' ')}.npy"


def read_array(path: Path, name: str) -> np.ndarray:
    """Raises: StitchError if `path` is no .npy file with one array."""
    import ml_dtypes

    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        rule = error.strerror or "not a .npy file"
        raise StitchError(path, rule, f"give a .npy file for input {name}") from None
    except (ValueError, EOFError):
        raise StitchError(path, "not a .npy file", "write it with numpy.save") from None
    if not isinstance(array, np.ndarray):
        raise StitchError(path, "an archive of arrays", "give a .npy file with one array")
    # The .npy format has no bfloat16: NumPy writes its bytes as |V2.
    return array.view(ml_dtypes.bfloat16) if array.dtype == "V2" else array
