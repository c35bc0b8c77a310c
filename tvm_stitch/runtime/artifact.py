"""The file of a compiled model: a shared library, its weights after it, and what it is.

    [shared library] zeros [weights, 64-byte aligned] [bundle] [footer]

Loaders ignore what follows an ELF image, so it stays a plain shared library; `stored.read` reads
the rest, or its own code does where TVM alone loads it (native/bundle.cc; the layout of bundle and
footer is in bundle.h).
"""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
import struct
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import cpu_features
from tvm_stitch.runtime.dtypes import dlpack_dtype, numpy_dtype

FORMAT = 3
MAGIC = b"STITCHED"
HEADER = struct.Struct("<8sIIQQQ")
WEIGHT = struct.Struct("<QBBHi16qiI")
STORED = -1
FOOTER = struct.Struct("<QQ8s")
_PAGE_BYTES = 4096
ALIGN_BYTES = 64
_REBUILD = "compile the model again on this machine"


@dataclass(frozen=True)
class Tensor:
    """A model's input or output: ONNX's own name, static shape, dtype such as "float32"."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Meta:
    """What a model is, apart from its code and weights.

    `index_bounds`: (lowest, highest) value allowed in an index input, both included.
    `copied_outputs`: positions of outputs that are constants of the model. `new_outputs`: all
    outputs are made by kernels of this run, none is an input's memory. `cpu_features`: the
    /proc/cpuinfo flags its code needs. `report`: `Report.to_json`'s object. `weights`: how many.
    `arch`: of the GPU that runs it, such as "sm_90", "" if it is a CPU that does. `narrow`: the
    type of inputs and outputs whose tensors are of a wider one, for arrays. `left`: the nodes that
    ONNX Runtime runs, each with the reason. `entry`: the function that runs. `others`: the same
    model for other shapes, by other entries.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    index_bounds: dict[str, tuple[int, int]]
    copied_outputs: tuple[int, ...]
    threads: int
    target: str
    cpu_features: tuple[str, ...]
    tvm_version: str
    report: dict
    weights: int
    new_outputs: bool = False
    arch: str = ""
    narrow: dict[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    entry: str = "main"
    others: tuple[Meta, ...] = ()
    format: int = FORMAT

    def to_json(self) -> str:
        """Return the metadata as `tvm_stitch_meta()` tells it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Meta:
        """Return the metadata that `to_json` wrote.

        Raises: ValueError, KeyError or TypeError if `text` is something else.
        """
        return cls._of(json.loads(text))

    @classmethod
    def _of(cls, fields: dict) -> Meta:
        for kind in ("inputs", "outputs"):
            tensors = fields[kind]
            fields[kind] = tuple(Tensor(t["name"], tuple(t["shape"]), t["dtype"]) for t in tensors)
        bounds = fields["index_bounds"]
        fields["index_bounds"] = {name: (low, high) for name, (low, high) in bounds.items()}
        fields["left"] = tuple(fields["left"])
        fields["copied_outputs"] = tuple(fields["copied_outputs"])
        fields["cpu_features"] = tuple(fields["cpu_features"])
        fields["others"] = tuple(map(cls._of, fields["others"]))
        return cls(**fields)


@dataclass(frozen=True)
class Prepared:
    """A weight that is made of another when the model is loaded, by function number `kernel`.

    `source` is the other's position among all weights; it comes before this one.
    """

    kernel: int
    source: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize


def prepare_name(kernel: int) -> str:
    """Return what the function that prepares weights is called, as native/bundle.cc knows it."""
    return f"tvm_stitch_prepare_{kernel}"


def bundle(
    meta: Meta,
    weights: Sequence[np.ndarray],
    addresses: Sequence[int],
    prepared: Sequence[Prepared] = (),
    image_checksum: int = 0,
) -> bytes:
    """Return metadata and weight table as native/bundle.cc reads them."""
    text, count = meta.to_json().encode(), len(weights) + len(prepared)
    parts = [text, bytes(-(HEADER.size + len(text)) % 8)]
    for weight, address in zip(weights, addresses, strict=True):
        parts.append(_record(weight.dtype, weight.shape, address, STORED, 0))
    for made in prepared:
        parts.append(_record(numpy_dtype(made.dtype), made.shape, 0, made.kernel, made.source))
    rest = b"".join(parts)
    header = HEADER.pack(MAGIC, FORMAT, meta.threads, len(text), count, 0)
    header = header[:-8] + struct.pack("<Q", checksum(header + rest, image_checksum))
    return header + rest


def checksum(tail: bytes, image_checksum: int) -> int:
    """Return what the header of a bundle holds as the checksum of a file but for its weights."""
    return zlib.crc32(tail[HEADER.size :], zlib.crc32(tail[: HEADER.size - 8], image_checksum))


def _record(
    dtype: np.dtype, shape: tuple[int, ...], address: int, kernel: int, source: int
) -> bytes:
    extents = [*shape, *[0] * (16 - len(shape))]
    kind = (*dlpack_dtype(dtype), 1)
    return WEIGHT.pack(address, *kind, len(shape), *extents, kernel, source)


def write(
    path: Path,
    library: bytes,
    meta: Meta,
    weights: Sequence[np.ndarray],
    prepared: Sequence[Prepared] = (),
) -> None:
    """Write the model's file; arrays that share memory are written once.

    Raises: StitchError if `path` cannot be written; it is then as it was.
    """
    with atomically(path) as file:
        image = library + bytes(-len(library) % _PAGE_BYTES)
        file.write(image)
        places: dict[tuple[int, int], int] = {}
        for weight in weights:
            if _place(weight) not in places:
                file.write(bytes(-file.tell() % ALIGN_BYTES))
                places[_place(weight)] = file.tell()
                file.write(weight.reshape(-1).view(np.uint8).data)
        addresses = [places[_place(weight)] for weight in weights]
        tail = bundle(meta, weights, addresses, prepared, zlib.crc32(image))
        file.write(bytes(-file.tell() % ALIGN_BYTES))
        file.write(tail + FOOTER.pack(file.tell(), len(tail), MAGIC))


def stored_bytes(weights: Sequence[np.ndarray]) -> int:
    """Return what arrays take in a file."""
    return sum(dict(_place(weight) for weight in weights).values())


def _place(weight: np.ndarray) -> tuple[int, int]:
    return weight.__array_interface__["data"][0], weight.nbytes


def check_cpu(given: object, meta: Meta) -> None:
    """Raise StitchError if this machine lacks a CPU feature the model's code needs."""
    if lacking := cpu_features.missing(meta.cpu_features):
        raise StitchError(given, f"built for a CPU with {', '.join(lacking)}", _REBUILD)


def check_writable(path: Path) -> None:
    """Raise StitchError if `atomically(path)` would fail; leaves nothing behind."""
    with _told(path), tempfile.TemporaryFile(dir=_regular(path).parent):
        pass


@contextmanager
def atomically(path: Path) -> Iterator:
    """Open a file that becomes `path` when the block ends, and vanishes if the block raises.

    A symbolic link stays, and what it points to is written. Raises: StitchError if it cannot be.
    """
    with _told(path):
        path = _regular(path)
        name = path.parent / f".tvm-stitch-{secrets.token_hex(8)}"
        with ExitStack() as undo:  # of whatever raises, Ctrl-C too
            # Not mkstemp, whose files are their owner's alone: others read a new file by the umask,
            # which no one can ask for without setting it.
            with name.open("xb") as file:
                undo.callback(os.unlink, name)
                yield file
            os.replace(name, path)
            undo.pop_all()


def _regular(path: Path) -> Path:
    """Return the file that `path` leads to, there or not.

    Raises: OSError if what is there is no regular file: replacing /dev/null would harm the system.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(0, "is a directory")
    if not stat.S_ISREG(mode):
        raise OSError(0, "is not a regular file")
    return target


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        rule = f"cannot be written: {(error.strerror or str(error)).lower()}"
        raise StitchError(path, rule, "choose another output path") from None
