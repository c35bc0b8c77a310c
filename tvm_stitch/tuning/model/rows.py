"""A row to learn from: a plan's features, and how they differ from those of the default plan."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

_DIGITS = 4  # enough to tell sizes apart that are in powers of two
_LESS = " less the default's"
PREDICTED = f"predicted{_LESS}"

Row = Mapping[str, float]


def row_of(features: Row, default: Row) -> dict[str, float]:
    """Return the features of a plan, and behind them where they differ from the default's."""
    row = {name: round(value, _DIGITS) for name, value in features.items()}
    for name in sorted({*features, *default}):
        apart = round(features.get(name, 0.0) - default.get(name, 0.0), _DIGITS)
        if apart:
            row[f"{name}{_LESS}"] = apart
    return row


def to_json(row: Row) -> str:
    """Return a row as canonical JSON."""
    return json.dumps(dict(row), sort_keys=True, separators=(",", ":"))


def from_json(text: str) -> dict[str, float]:
    """Read what `to_json` wrote. Raises: ValueError if it is no object of finite numbers."""
    row = json.loads(text)
    if not isinstance(row, dict):
        raise ValueError("a row of features is no JSON object")
    for name, value in row.items():
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError(f"feature {name!r} is {value!r}, not a finite number")
    return {name: float(value) for name, value in row.items()}


def value_of(row: Row, name: str) -> float:
    """Return a feature, NaN where it does not apply or was not told of yet.

    A difference from the default is left out of a row where it is 0.
    """
    if name.endswith(_LESS) and name.removesuffix(_LESS) in row:
        return row.get(name, 0.0)
    return row.get(name, math.nan)
