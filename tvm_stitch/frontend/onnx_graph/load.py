"""Read an ONNX model's structure, leaving its large tensors where they are."""

from __future__ import annotations

import mmap
import stat
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.wire import Malformed, strip_large_tensors

STRIP_FROM_BYTES = 4096


def load_structure(path: Path) -> onnx.ModelProto:
    """Parse the file at `path`; its tensors of 4 KiB or more become references into the file.

    Raises: StitchError if it cannot be read or is not a whole ONNX model.
    """
    try:
        if not path.is_dir() and not stat.S_ISREG(path.stat().st_mode):
            raise StitchError(path, "it is no regular file", "copy the model into one")
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise StitchError(path, "the file is empty", "export the model again")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                stripped = strip_large_tensors(data, STRIP_FROM_BYTES)
    except OSError as error:
        raise StitchError(
            path, f"the model cannot be read ({error.strerror})", "check the path"
        ) from error
    except Malformed as error:
        raise _not_onnx(path, str(error)) from error
    return parse(stripped, path)


def parse(data: bytes, given: object) -> onnx.ModelProto:
    """Return the model that bytes are. Raises: StitchError if they are not a whole ONNX model."""
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise _not_onnx(given, "protobuf cannot parse it") from error
    if not model.opset_import or not model.HasField("graph"):
        raise _not_onnx(given, "it has no graph or no operator set")
    return model


def _not_onnx(given: object, why: str) -> StitchError:
    return StitchError(
        given, f"not an ONNX model, or cut off ({why})", "check the file, or export it again"
    )
