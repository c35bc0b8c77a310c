"""A log as a file of JSON lines: its format, then one record a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ...errors import StitchError
from ...runtime.artifact import atomically
from .checks import MOST_TEXT
from .formats import FORMAT, check_format
from .references import References
from .store import Log
from .trial import DeviceKey, PlanChoice, Record, Trial, Workload

_HEAD = "tvm_stitch_log"
_KINDS = {"workload": Workload, "device": DeviceKey, "trial": Trial, "choice": PlanChoice}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_MOST_LINE = 8 * MOST_TEXT  # bytes: JSON writes a character in up to six


def export_json(log: Log, path: str | Path) -> None:
    """Write all records of a log to a file, which is replaced when they are written."""
    with atomically(Path(path)) as file:
        file.write(_line({_HEAD: FORMAT}))
        for record in log.records():
            file.write(_line({_NAMES[type(record)]: asdict(record)}))


def import_json(log: Log, path: str | Path) -> int:
    """Add the records of a file that `export_json` wrote; return how many trials were new.

    Raises: StitchError with the line's number if one is no record; then none is added.
    """
    return log.add(list(_records(Path(path))))


def _line(data: dict) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


def _records(path: Path) -> Iterator[Record]:
    references = References()
    for number, line in enumerate(_lines(path), 1):
        given = f"{path}, line {number}"
        try:
            data = _data(line)
            if number == 1:
                check_format(path, data.get(_HEAD))
                continue
            record = _record(data)
            references.meet(record)
        except (ValueError, RecursionError) as error:
            raise StitchError(given, str(error), "mend or delete that line") from None
        yield record


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield file.readline(_MOST_LINE)  # empty where the file is: it has no format
            while line := file.readline(_MOST_LINE):
                yield line
    except OSError as error:
        remedy = "give a file that an export wrote"
        raise StitchError(path, error.strerror or str(error), remedy) from None


def _data(line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise ValueError("the line does not end")
    data = json.loads(line.decode())
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError(f"not an object of one of {_HEAD}, {', '.join(_KINDS)}")
    return data


def _record(data: dict[str, Any]) -> Record:
    (name, values), *_ = data.items()
    if name not in _KINDS:
        raise ValueError(f"{name!r} is none of {', '.join(_KINDS)}")
    names = [field.name for field in fields(_KINDS[name])]
    if not isinstance(values, dict) or set(values) != set(names):
        raise ValueError(f"a {name} has the fields {', '.join(names)}")
    return _KINDS[name](**values)
