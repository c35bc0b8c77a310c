"""Reading a profile's JSON: what is wrong is named by its file and place."""

from __future__ import annotations

import math
from collections.abc import Mapping

REMEDY = "measure this machine with tvm-stitch calibrate -o FILE"


class ProfileError(ValueError):
    """A profile that cannot be used: what was given, which rule it broke, what to do."""

    def __init__(self, given: str, rule: str, remedy: str) -> None:
        self.given, self.rule, self.remedy = given, rule, remedy
        super().__init__(f"{given}: {rule}; {remedy}")


class Reader:
    """Reads JSON values and names the file and the place when one is not as it must be."""

    def __init__(self, source: str) -> None:
        self._source = source

    def record(self, data: object, where: str, kinds: Mapping[str, type]) -> dict:
        """Return an object with exactly these fields, each of its type."""
        if not isinstance(data, dict):
            raise self.refused(where, "is not an object")
        for key in data.keys() ^ kinds.keys():
            raise self.refused(f"{where} {key}", "is missing" if key in kinds else "is unknown")
        for key, kind in kinds.items():
            if not is_a(data[key], kind):
                raise self.refused(f"{where} {key}", f"is not {kind.__name__}")
        return data

    def listed(self, data: list, where: str) -> list:
        if not data:
            raise self.refused(where, "is empty")
        return data

    def by_threads(self, data: dict, where: str) -> dict[int, float]:
        out = {}
        for threads, ns in data.items():
            if not threads.isascii() or not threads.isdigit() or int(threads) < 2:
                raise self.refused(f"{where} {threads}", "is not a count of threads from 2 on")
            out[int(threads)] = self.positive(ns, f"{where} {threads}")
        return out

    def sentences(self, data: dict, where: str) -> dict[str, str]:
        return self.record(data, where, dict.fromkeys(data, str))

    def finite(self, value: float, where: str) -> float:
        if not math.isfinite(value):
            raise self.refused(where, "is not a number")
        return float(value)

    def positive(self, value: object, where: str) -> float:
        if not is_a(value, float) or not 0 < value < math.inf:
            raise self.refused(where, "is not a positive number")
        return float(value)

    def refused(self, where: str, rule: str) -> ProfileError:
        return ProfileError(self._source, f"{where} {rule}", REMEDY)


def is_a(value: object, kind: type) -> bool:
    """Return whether a JSON value is of a kind; an integer is a float too, a bool no number."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)
