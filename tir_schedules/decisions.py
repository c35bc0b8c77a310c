"""Decisions of a kernel as data: frozen dataclasses to JSON and back, their knobs by path.

A field marked by `knob()` may change alone; the others are the variant, which says what the kernel
is made of. A path is the names of fields and the places in tuples that lead to a knob:
`phases.0.nests.2.lanes`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")
KNOB = "knob"


class DecisionsError(ValueError):
    """What was read is no decisions of a kernel; says where, and what was expected there."""


def knob(default: Any = dataclasses.MISSING) -> Any:
    """Return a field whose value may change without any other's."""
    return dataclasses.field(default=default, metadata={KNOB: True})


def to_json(decisions: Any) -> str:
    """Return decisions as JSON, the same text for equal ones."""
    return json.dumps(dataclasses.asdict(decisions), sort_keys=True, separators=(",", ":"))


def from_json(kind: type[T], text: str) -> T:
    """Return the decisions that `to_json` wrote.

    Raises: DecisionsError if the text is no JSON, or not of these fields and types.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DecisionsError(f"decisions are no JSON: {error}; give what to_json wrote") from None
    return _made(kind, data, "decisions")


def variant(decisions: Any) -> str:
    """Return what is not a knob, as text: equal for decisions of one structure."""
    return json.dumps(_structure(decisions), sort_keys=True, separators=(",", ":"))


def knobs(decisions: Any) -> dict[str, Any]:
    """Return the value of each knob by its path."""
    return dict(_knobs(decisions, ""))


def with_knob(decisions: T, path: str, value: Any) -> T:
    """Return the decisions with another value of a knob.

    Raises: KeyError if there is no such knob.
    """
    if path not in knobs(decisions):
        raise KeyError(f"no knob {path!r}")
    return _replaced(decisions, path.split("."), value)


def _structure(part: Any) -> Any:
    if dataclasses.is_dataclass(part):
        fields = (f for f in dataclasses.fields(part) if KNOB not in f.metadata)
        return {f.name: _structure(getattr(part, f.name)) for f in fields}
    return [_structure(p) for p in part] if isinstance(part, tuple) else part


def _knobs(part: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(part, tuple):
        for number, each in enumerate(part):
            yield from _knobs(each, f"{path}{number}.")
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if KNOB in field.metadata:
                yield f"{path}{field.name}", value
            else:
                yield from _knobs(value, f"{path}{field.name}.")


def _replaced(part: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    if isinstance(part, tuple):
        at = int(first)
        return (*part[:at], _replaced(part[at], rest, value), *part[at + 1 :])
    return dataclasses.replace(part, **{first: _replaced(getattr(part, first), rest, value)})


@functools.cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _made(kind: Any, data: Any, where: str) -> Any:
    """Return JSON data as a value of a type, checked."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if data is None:
            return None
        (inner,) = (a for a in arguments if a is not type(None))
        return _made(inner, data, where)
    if origin is tuple:
        if not isinstance(data, list):
            raise DecisionsError(f"{where} is {data!r}, not a list")
        if arguments[-1] is not Ellipsis and len(data) != len(arguments):
            raise DecisionsError(f"{where} has {len(data)} items, not {len(arguments)}")
        kinds = arguments if arguments[-1] is not Ellipsis else arguments[:1] * len(data)
        pairs = enumerate(zip(kinds, data, strict=True))
        return tuple(_made(k, each, f"{where}[{n}]") for n, (k, each) in pairs)
    if dataclasses.is_dataclass(kind):
        return _record(kind, data, where)
    if type(data) is not kind:
        raise DecisionsError(f"{where} is {data!r}, not {kind.__name__}")
    return data


def _record(kind: type, data: Any, where: str) -> Any:
    names = {field.name for field in dataclasses.fields(kind)}
    if not isinstance(data, dict) or set(data) != names:
        raise DecisionsError(f"{where} has not the fields {', '.join(sorted(names))}")
    made = {n: _made(_types(kind)[n], data[n], f"{where}.{n}") for n in sorted(names)}
    return kind(**made)
