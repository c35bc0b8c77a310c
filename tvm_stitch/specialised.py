"""A model compiled for the shapes it meets: one executable for each, made at first sight."""

from __future__ import annotations

from collections.abc import Mapping
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
from tvm_stitch.runtime.model import Model


class Specialised:
    """An ONNX model of open shapes; `options` are those of `tvm_stitch.compile`.

    Inputs that decide shapes, such as axes or sizes, count by their values.
    """

    def __init__(self, model: Path | onnx.ModelProto, **options: Any) -> None:
        """Raises: StitchError for what is no model."""
        proto = load_structure(model) if isinstance(model, Path) else model
        path = model if isinstance(model, Path) else None
        graph = read_graph(proto, TensorReader(model, path), model)
        self.inputs = [value.name for value in graph.inputs]
        self.outputs = [value.name for value in graph.outputs]
        self._model, self._options = model, options
        self._deciding = deciding_inputs(graph)
        self._compiled: dict[tuple, Model] = {}

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run on arrays by name; return fresh arrays by name.

        Raises: StitchError as `tvm_stitch.compile` and `Model.run`.
        """
        if inputs.keys() != set(self.inputs):
            names, wanted = ", ".join(inputs), ", ".join(self.inputs)
            raise StitchError(f"inputs {names}", "not those of the model", f"give {wanted}")
        values = {name: inputs[name] for name in self._deciding}
        rest = {name: array for name, array in inputs.items() if name not in values}
        key = (
            tuple((name, array.shape) for name, array in sorted(rest.items())),
            tuple((n, a.shape, str(a.dtype), a.tobytes()) for n, a in sorted(values.items())),
        )
        if key not in self._compiled:
            shapes = {name: array.shape for name, array in rest.items()}
            options = {**self._options, "shapes": shapes, "values": values}
            self._compiled[key] = compile(self._model, **options)
        return self._compiled[key].run(rest)
