"""Steps of a compilation by name: applied in order, watched, and written to files if asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tvm.ir import IRModule

from relay_passes.rewrites.legalize.named_legalize import REFUSALS
from relay_passes.transform import NamedLegalize, RollLoops
from tvm_stitch.errors import StitchError

Step = tuple[str, Callable[[IRModule], IRModule]]


class Steps:
    """Runs steps and numbers them, from the imported module to the executable.

    `dump_dir` receives the module behind each as `NN_Name.py`; `watch` is called with each step's
    name and its result.
    """

    def __init__(
        self,
        dump_dir: Path | None = None,
        watch: Callable[[str, IRModule], None] | None = None,
    ) -> None:
        self._dump_dir, self._watch, self._number = dump_dir, watch, 0

    def unwatched(self) -> Steps:
        """Return what numbers and writes the steps behind those that were run, unwatched."""
        rest = Steps(self._dump_dir)
        rest._number = self._number
        return rest

    def run(self, steps: Sequence[Step], mod: IRModule) -> IRModule:
        """Return what steps make of a module.

        Raises: NotLegalized for an operator that no rule takes, StitchError if no file can be
        written.
        """
        for name, step in steps:
            mod = _applied(step, mod)
            if self._watch is not None:
                self._watch(name, mod)
            if self._dump_dir is not None:
                _dump(mod, self._dump_dir, f"{self._number:02}_{name}.py")
            self._number += 1
        return mod


def _applied(step: Callable[[IRModule], IRModule], mod: IRModule) -> IRModule:
    try:
        return step(mod)
    except REFUSALS as error:
        if isinstance(step, NamedLegalize | RollLoops) and step.refusal is not None:
            raise step.refusal from error
        raise


def _dump(mod: IRModule, folder: Path, name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(mod.script(show_meta=True))
    except OSError as error:
        raise StitchError(folder, error.strerror, "choose another --dump-ir folder") from None
