"""The number of what a log and an export hold: records of other fields have another number."""

from __future__ import annotations

from typing import Any

from ...errors import StitchError

FORMAT = 1


def check_format(given: object, found: Any) -> None:
    """Raise StitchError if what is given holds records of another format than this release's."""
    if type(found) is not int:
        raise StitchError(given, "holds no tuning log", "give what tvm-stitch wrote, or a new path")
    if found < FORMAT:
        rule = f"a log of format {found}, older than this release's {FORMAT}"
        raise StitchError(given, rule, "use the release that wrote it, or start a new log")
    if found > FORMAT:
        rule = f"a log of format {found}, newer than this release's {FORMAT}"
        raise StitchError(given, rule, "install a newer tvm-stitch")
