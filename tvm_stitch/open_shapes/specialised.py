"""A model compiled for the shapes it meets: one executable for each, made at first sight."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tvm_stitch.api import compile
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import read_graph
from tvm_stitch.frontend.onnx_graph.load import load_structure
from tvm_stitch.frontend.onnx_graph.tensors import TensorReader
from tvm_stitch.frontend.values import deciding_inputs
from tvm_stitch.open_shapes.model_cache import ModelCache
from tvm_stitch.runtime.model import Model

logger = logging.getLogger(__name__)

Key = tuple[tuple, ...]
KEPT_BYTES = 4 << 30


class Specialised:
    """An ONNX model of open shapes; `options` are those of `tvm_stitch.compile`.

    Inputs that decide shapes, such as axes or sizes, count by their values. Of the models that were
    used last as many stay in memory as take `keep_bytes`, one at least; in the folder `cache` all
    do, for every process.
    """

    def __init__(
        self,
        model: str | os.PathLike | onnx.ModelProto,
        *,
        shapes: Mapping[str, Sequence[int | str]] | None = None,
        cache: str | os.PathLike | None = None,
        keep_bytes: int = KEPT_BYTES,
        **options: Any,
    ) -> None:
        """Raises: StitchError for what is no model, and for a folder that can't be written to."""
        if not isinstance(model, str | os.PathLike | onnx.ModelProto):
            kind = type(model).__name__
            raise StitchError(f"a {kind}", "only ONNX models have open shapes", "give numbers")
        given = model if isinstance(model, onnx.ModelProto) else Path(model)
        path = given if isinstance(given, Path) else None
        proto = load_structure(path) if path else given
        graph = read_graph(proto, TensorReader(given, path), given)
        self.inputs = [value.name for value in graph.inputs]
        self.outputs = [value.name for value in graph.outputs]
        self._model, self._options, self._keep = given, options, keep_bytes
        self._shapes = dict(shapes or {})
        for name in self._shapes:
            if name not in self.inputs:
                rule, remedy = "the model has no such input", f"its inputs are {self.inputs}"
                raise StitchError(f"shape of {name!r}", rule, remedy)
        self._deciding = deciding_inputs(graph)
        self._cache = ModelCache.open(Path(cache), given, options) if cache is not None else None
        self._compiled: OrderedDict[Key, Model] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run on arrays by name; return fresh arrays by name.

        Raises: StitchError as `tvm_stitch.compile` and `Model.run`.
        """
        if inputs.keys() != set(self.inputs):
            names, wanted = ", ".join(inputs), ", ".join(self.inputs)
            raise StitchError(f"inputs {names}", "not those of the model", f"give {wanted}")
        _check_shapes(inputs, self._shapes)
        values = {name: inputs[name] for name in self._deciding}
        rest = {name: array for name, array in inputs.items() if name not in values}
        return self._for(rest, values).run(rest)

    @property
    def shapes(self) -> int:
        """How many shapes have a model in memory."""
        return len(self._compiled)

    def _for(self, rest: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> Model:
        """Return the model for inputs of such shapes and values. Raises: StitchError."""
        key = (
            tuple((name, array.shape) for name, array in sorted(rest.items())),
            tuple((n, a.shape, str(a.dtype), a.tobytes()) for n, a in sorted(values.items())),
        )
        with self._lock:
            if key not in self._compiled:
                self._compiled[key] = self._made(key, rest, values)
            self._compiled.move_to_end(key)
            while len(self._compiled) > 1 and self._bytes > self._keep:
                self._compiled.popitem(last=False)
            return self._compiled[key]

    @property
    def _bytes(self) -> int:
        """What the models take: their weights and what their kernels write."""
        reports = [model.report for model in self._compiled.values()]
        return sum(each.resident_weight_bytes + each.peak_bytes for each in reports)

    def _made(
        self, key: Key, rest: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]
    ) -> Model:
        if self._cache is not None and (found := self._cache.load(key)) is not None:
            return found
        start = time.perf_counter()
        shapes = {name: array.shape for name, array in rest.items()}
        model = compile(self._model, **{**self._options, "shapes": shapes, "values": values})
        logger.info("compiled for %s in %.1f s", shapes, time.perf_counter() - start)
        if self._cache is not None:
            self._cache.store(key, model)
        return model


def _check_shapes(
    inputs: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int | str]]
) -> None:
    """Raise StitchError for an input that has another rank, number or two values of one name."""
    found: dict[str, int] = {}
    for name, wanted in shapes.items():
        shape = inputs[name].shape
        fits = len(shape) == len(wanted) and all(
            extent == (found.setdefault(each, extent) if isinstance(each, str) else each)
            for each, extent in zip(wanted, shape, strict=True)
        )
        if not fits:
            shown = ", ".join(map(str, wanted))
            known = "".join(f", {symbol} = {value}" for symbol, value in found.items())
            raise StitchError(
                f"input {name}", f"{list(shape)} is not [{shown}]{known}", "reshape it"
            )
