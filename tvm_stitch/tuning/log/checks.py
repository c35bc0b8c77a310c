"""Checks of a record's fields: each raises ValueError that says which field, and what is wrong."""

from __future__ import annotations

import json
import math
import re
import reprlib
from typing import Any

# A record is held in memory whole, and a log may come from anyone. A kernel's text and decisions
# have a few thousand characters, a model's largest plan some hundred thousand.
MOST_TEXT = 1 << 20
MOST_LINE = 1000  # of what a person reads in a table
MOST_RUNS = (1 << 31) - 1  # PostgreSQL's integer


def hex_digits(field: str, value: Any, count: int) -> None:
    if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{count}}}", value):
        raise ValueError(f"{field} is {reprlib.repr(value)}, not {count} hexadecimal digits")


def text(field: str, value: Any, most: int = MOST_TEXT) -> None:
    """A text that either database keeps: no NUL, and nothing that UTF-8 cannot write."""
    if not isinstance(value, str):
        raise ValueError(f"{field} is {reprlib.repr(value)}, not a text")
    if len(value) > most:
        raise ValueError(f"{field} has {len(value)} characters, more than {most}")
    if re.search("[\0\ud800-\udfff]", value):
        raise ValueError(f"{field} has a NUL or half a surrogate pair")


def line(field: str, value: Any) -> None:
    """One line of what a terminal prints without moving its cursor."""
    text(field, value, MOST_LINE)
    if not value.isprintable() or not value:
        raise ValueError(f"{field} is {reprlib.repr(value)}, not one printable line")


def canonical_json(field: str, value: Any) -> None:
    """JSON as `tir_schedules.decisions.to_json` writes it: equal values have equal texts."""
    text(field, value)
    try:
        again = json.dumps(
            json.loads(value), sort_keys=True, separators=(",", ":"), allow_nan=False
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{field} is no JSON: {error}") from None
    if again != value:
        raise ValueError(f"{field} is JSON, but not canonical: sorted keys, no spaces")


def json_object(field: str, value: Any) -> None:
    canonical_json(field, value)
    if not value.startswith("{"):
        raise ValueError(f"{field} is {reprlib.repr(value)}, not a JSON object")


def positive(field: str, value: Any) -> None:
    not_negative(field, value)
    if value == 0:
        raise ValueError(f"{field} is 0")


def not_negative(field: str, value: Any) -> None:
    if not isinstance(value, float) or not 0 <= value < math.inf:
        raise ValueError(f"{field} is {reprlib.repr(value)}, not a finite float of at least 0")


def runs(field: str, value: Any) -> None:
    if type(value) is not int or not 0 <= value <= MOST_RUNS:
        raise ValueError(f"{field} is {reprlib.repr(value)}, not a count")
