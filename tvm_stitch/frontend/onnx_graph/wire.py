"""Find large tensors inside an ONNX file without reading them.

protobuf keeps a parsed file twice (bytes and message) and NumPy adds a third copy. Here the file is
walked in place: tensors above a limit are left out of the bytes that protobuf parses, and what
remains of each is a reference (offset, length) in the form of ONNX external data.

Source: protobuf wire format, https://protobuf.dev/programming-guides/encoding/; field numbers from
onnx.proto.
"""

from __future__ import annotations

import mmap

import onnx

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# What leads from ModelProto to a TensorProto: {message: {field number: message of the field}}.
CHILDREN = {
    "Model": {7: "Graph"},
    "Graph": {1: "Node", 5: "Tensor"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor"},
}
RAW_DATA = 9
INLINE_LOCATION = "\0"  # stands for the model file itself; no file has this name


class Malformed(Exception):
    """The bytes are no protobuf message of the expected kind."""


def strip_large_tensors(data: mmap.mmap | bytes, limit_bytes: int) -> bytes:
    """Return the model's bytes, raw tensor data of at least `limit_bytes` replaced by references.

    Raises: Malformed if a length runs past the end of its message.
    """
    with memoryview(data) as view:
        return b"".join(_strip(view, 0, len(view), "Model", limit_bytes))


def _strip(data: memoryview, start: int, end: int, kind: str, limit: int) -> list[bytes]:
    children, pieces, kept = CHILDREN[kind], [], start
    for field, tag_at, at, length in _fields(data, start, end):
        child = children.get(field)
        if child is None or length < limit:
            continue
        if child == "Tensor":
            body = _tensor(data, at, at + length, limit)
        else:
            body = b"".join(_strip(data, at, at + length, child, limit))
        pieces += [bytes(data[kept:tag_at]), _varint(field << 3 | BYTES), _varint(len(body)), body]
        kept = at + length
    return [*pieces, bytes(data[kept:end])]


def _tensor(data: memoryview, start: int, end: int, limit: int) -> bytes:
    for field, tag_at, at, length in _fields(data, start, end):
        if field == RAW_DATA and length >= limit:
            reference = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
            for key, value in (("location", INLINE_LOCATION), ("offset", at), ("length", length)):
                reference.external_data.add(key=key, value=str(value))
            rest = bytes(data[start:tag_at]) + bytes(data[at + length : end])
            return rest + reference.SerializeToString()
    return bytes(data[start:end])


def _fields(data: memoryview, at: int, end: int):
    """Yield (field number, offset of the tag, offset of the payload, its bytes or 0)."""
    while at < end:
        tag_at = at
        tag, at = _read_varint(data, at, end)
        field, wire = tag >> 3, tag & 7
        length = 0
        if wire == BYTES:
            length, at = _read_varint(data, at, end)
            if length > end - at:
                raise _cut(field, tag_at)
            yield field, tag_at, at, length
        elif wire == VARINT:
            _, at = _read_varint(data, at, end)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise Malformed(f"wire type {wire} at byte {tag_at}")
        at += length
        if at > end or field == 0:
            raise _cut(field, tag_at)


def _cut(field: int, at: int) -> Malformed:
    return Malformed(f"field {field} at byte {at} runs past its message")


def _read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise Malformed(f"a number is cut off at byte {at}")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
