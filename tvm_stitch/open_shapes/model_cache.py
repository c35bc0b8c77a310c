"""A folder of compiled models, that processes share: each in a file named by all that made it.

The first half of a name is of the model and its options, the second of what it was compiled for.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import tvm

import tvm_stitch
from tvm_stitch import targets
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.artifact import check_writable
from tvm_stitch.runtime.library import load
from tvm_stitch.runtime.model import Model

logger = logging.getLogger(__name__)

_BLOCK = 1 << 20


class ModelCache:
    """Files of one model, compiled with some options, by what it was compiled for.

    A file is written whole or not at all; one that can't be loaded is made anew.
    """

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder, self._stem = folder, stem

    @classmethod
    def open(
        cls, folder: Path, model: Path | onnx.ModelProto, options: Mapping[str, Any]
    ) -> ModelCache:
        """Raises: StitchError for a folder that can't be made or written to."""
        made = hashlib.sha256()
        _add_model(made, model)
        return cls._of(folder, made, options)

    @classmethod
    def of_digest(cls, folder: Path, digest: bytes, options: Mapping[str, Any]) -> ModelCache:
        """Open the folder for what a digest stands for. Raises: as `open`."""
        return cls._of(folder, hashlib.sha256(digest), options)

    @classmethod
    def _of(cls, folder: Path, made: Any, options: Mapping[str, Any]) -> ModelCache:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            rule = f"it cannot be made ({error.strerror})"
            raise StitchError(f"cache {folder}", rule, "name another folder") from error
        check_writable(folder / "model.so")
        target = targets.resolve(options.get("target", "x86"), options.get("threads"))
        made.update(str(target).encode())
        made.update(f"{tvm_stitch.__version__} {tvm.__version__}".encode())
        for name in sorted(options.keys() - {"target", "threads"}):
            made.update(f"{name}={options[name]}".encode())
            _add_file(made, options[name])
        return cls(folder, made.hexdigest()[:32])

    def load(self, key: object) -> Model | None:
        """Return what was stored for a key, None if nothing was or it is damaged."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            return load(path)
        except StitchError as error:
            logger.warning("cache %s: %s; it is compiled anew", error.given, error.rule)
            return None

    def store(self, key: object, model: Model) -> None:
        """Raises: StitchError if the file can't be written."""
        model.export(self._path(key))

    def _path(self, key: object) -> Path:
        own = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
        return self._folder / f"{self._stem}-{own}.so"


def _add_model(made: Any, model: Path | onnx.ModelProto) -> None:
    """Add a model's bytes, those of other files that it names too."""
    if not isinstance(model, Path):
        made.update(model.SerializeToString(deterministic=True))
        return
    _add_file(made, model)
    proto = onnx.load(model, load_external_data=False)
    named = {e.value for t in proto.graph.initializer for e in t.external_data
             if e.key == "location"}  # fmt: skip
    for name in sorted(named):
        _add_file(made, model.parent / name)


def _add_file(made: Any, path: object) -> None:
    """Add a file's bytes, if it is one."""
    if isinstance(path, str | Path) and Path(path).is_file():
        with Path(path).open("rb") as file:
            while block := file.read(_BLOCK):
                made.update(block)
