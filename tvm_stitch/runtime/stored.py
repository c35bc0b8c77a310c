"""Reading a model's file: every offset and size in it is checked before it is used.

The file may change afterwards: nothing of it stays mapped.
"""

from __future__ import annotations

import math
import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import artifact
from tvm_stitch.runtime.artifact import (
    ALIGN_BYTES,
    FOOTER,
    HEADER,
    MAGIC,
    STORED,
    WEIGHT,
    Meta,
    Prepared,
)
from tvm_stitch.runtime.dtypes import dlpack_dtype, numpy_dtype

_MOST_THREADS = 1 << 16
_MOST_AXES = 16
_DTYPES = {
    dlpack_dtype(numpy_dtype(name)): name
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "bfloat16", "float32", "float64",
    )
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """What makes a model: `library` is the image of the shared library."""

    meta: Meta
    library: bytes
    weights: list[np.ndarray]
    prepared: tuple[Prepared, ...] = ()


@dataclass(frozen=True)
class _Record:
    """A line of the weight table; `address` counts from the file's first byte."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    kernel: int
    source: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize


class _Damaged(Exception):
    """The file is one of ours and says what cannot be."""


def read(path: Path) -> Stored:
    """Read a model's file, its weights into memory of their own.

    Raises: StitchError if it is missing, foreign, of another format, damaged, or for another CPU.
    """
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # to open it waits for a writer
            raise StitchError(path, "it is a pipe", "give the output of compile")
        with path.open("rb") as file:
            return _read(path, file)
    except OSError as error:
        raise StitchError(path, error.strerror or str(error), "check the path") from None
    except _Damaged as damage:
        remedy = "copy it again, or compile the model again"
        raise StitchError(path, f"the file is damaged: {damage}", remedy) from None


def _read(path: Path, file: BinaryIO) -> Stored:
    start, tail = _tail(path, file)
    _, version, threads, text_bytes, count, checksum = HEADER.unpack_from(tail)
    _check_format(path, version)
    table_start = HEADER.size + text_bytes + -(HEADER.size + text_bytes) % 8
    if table_start + count * WEIGHT.size != len(tail):
        raise _Damaged("its table of weights has another size")
    records = [
        _record(tail, table_start + number * WEIGHT.size, number, start) for number in range(count)
    ]
    begin = min((record.address for record in records if record.kernel == STORED), default=start)
    file.seek(0)
    image = _read_all(file, bytearray(begin))
    if checksum != artifact.checksum(tail, zlib.crc32(image)):
        raise _Damaged("its checksum is another")
    meta = _meta(tail[HEADER.size : HEADER.size + text_bytes])
    if not 1 <= threads == meta.threads <= _MOST_THREADS or count != meta.weights:
        raise _Damaged("its header is of another model")
    artifact.check_cpu(path, meta)
    weights = _weights(file, records, begin, start)
    made = (record for record in records if record.kernel != STORED)
    prepared = tuple(Prepared(r.kernel, r.source, r.shape, r.dtype) for r in made)
    return Stored(meta, bytes(image), weights, prepared)


def _tail(path: Path, file: BinaryIO) -> tuple[int, bytes]:
    """Return where the bundle begins, and the bundle, which has a header at least."""
    foreign = StitchError(
        path, "not a model that tvm-stitch exported", "give the output of compile"
    )
    size = file.seek(0, os.SEEK_END)
    if size < FOOTER.size:
        raise foreign
    file.seek(size - FOOTER.size)
    start, length, magic = FOOTER.unpack(file.read(FOOTER.size))
    if magic != MAGIC or length < HEADER.size or start + length + FOOTER.size != size:
        raise foreign
    file.seek(start)
    tail = bytes(_read_all(file, bytearray(length)))
    if not tail.startswith(MAGIC):
        raise foreign
    return start, tail


def _check_format(path: Path, version: int) -> None:
    known = artifact.FORMAT
    if version > known:
        remedy = "use the tvm-stitch that wrote it"
        raise StitchError(path, f"file format {version}, newer than {known}", remedy)
    if version < known:
        rule = f"file format {version}, older than {known}"
        raise StitchError(path, rule, "compile the model again")


def _record(tail: bytes, at: int, number: int, end: int) -> _Record:
    """Read a line of the table; stored weights lie before `end`."""
    address, code, bits, lanes, ndim, *rest = WEIGHT.unpack_from(tail, at)
    *extents, kernel, source = rest
    shape = tuple(extents[: max(ndim, 0)])
    if not 0 <= ndim <= _MOST_AXES or min(shape, default=0) < 0:
        raise _Damaged(f"weight {number} has {ndim} axes of {list(shape)}")
    if (code, bits) not in _DTYPES or lanes != 1:
        raise _Damaged(f"weight {number} has an unknown dtype")
    record = _Record(address, _DTYPES[code, bits], shape, kernel, source)
    if kernel < STORED or (kernel != STORED and source >= number):
        raise _Damaged(f"weight {number} is made of weight {source}")
    if kernel == STORED and (address % ALIGN_BYTES or address + record.bytes > end):
        last = address + record.bytes
        raise _Damaged(f"weight {number} lies at bytes {address} to {last} of {end}")
    return record


def _meta(text: bytes) -> Meta:
    try:
        return Meta.from_json(text.decode())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _Damaged("its metadata is no model's") from None


def _weights(file: BinaryIO, records: list[_Record], begin: int, end: int) -> list[np.ndarray]:
    """Read the stored weights, from cache lines on; those that share bytes of the file still do."""
    room = np.empty(end - begin + ALIGN_BYTES, np.uint8)
    skip = -room.__array_interface__["data"][0] % ALIGN_BYTES
    raw = room[skip : skip + end - begin]
    file.seek(begin)
    _read_all(file, raw)
    places = [(record, record.address - begin) for record in records if record.kernel == STORED]
    return [
        raw[at : at + record.bytes].view(numpy_dtype(record.dtype)).reshape(record.shape)
        for record, at in places
    ]


def _read_all(file: BinaryIO, memory: bytearray | np.ndarray) -> bytearray | np.ndarray:
    """Fill `memory` from where the file stands; return it."""
    left = memoryview(memory)
    while left:
        got = file.readinto(left)
        if not got:
            raise _Damaged("it ends too soon")
        left = left[got:]
    return memory
