"""What of the packages a worker has not loaded: changes there are none of what its cases ran."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

from . import ROOT

CODE = ("relay_passes", "tir_schedules", "tvm_stitch")


class Loaded:
    """Watches this process: another one that it starts may load what this one has not."""

    def __init__(self) -> None:
        self._others = False
        self._loaded: set[str] = set()
        self._found: list[str] = []
        sys.addaudithook(self._hear)

    def left_out(self) -> list[str]:
        """Return files and whole folders that no module is from, none if another may be."""
        if self._others:
            return []
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        inside = (Path(file) for file in modules if file and file.startswith(f"{ROOT}/"))
        if more := {str(path.relative_to(ROOT)) for path in inside} - self._loaded:
            self._loaded |= more
            self._found = without(self._loaded, _files())
        return self._found

    def _hear(self, event: str, arguments: tuple) -> None:
        if event in ("os.fork", "os.forkpty", "os.system", "os.posix_spawn", "os.exec"):
            self._others = True
        elif event == "subprocess.Popen":
            self._others |= Path(str(arguments[0])).name.startswith("python")


def without(loaded: Collection[str], files: Iterable[str]) -> list[str]:
    """Return the files that are not loaded, a folder in the place of all that it has."""
    left = [PurePosixPath(file) for file in files if file not in loaded]
    used = {parent for file in loaded for parent in PurePosixPath(file).parents}
    found = set()
    for file in left:
        free = (parent for parent in reversed(file.parents) if parent not in used)
        found.add(str(next((each for each in free if each.parts), file)))
    return sorted(found)


def common(one: Iterable[str], other: Iterable[str]) -> list[str]:
    """Return what is left out by both."""
    return sorted(
        {path for path in one if _is_within(path, other)}
        | {path for path in other if _is_within(path, one)}
    )


def _is_within(path: str, others: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{other}/") for other in others)


@functools.cache
def _files() -> tuple[str, ...]:
    paths = (path for package in CODE for path in (ROOT / package).rglob("*.py"))
    return tuple(str(path.relative_to(ROOT)) for path in paths)
