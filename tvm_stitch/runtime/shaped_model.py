"""A model compiled for several shapes of its inputs, in one library with one set of weights."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_stitch.errors import StitchError
from tvm_stitch.reports.report import Report
from tvm_stitch.runtime.artifact import Meta
from tvm_stitch.runtime.model import Model

_SHOWN = 4  # shapes that an error names


class ShapedModel:
    """Runs the model of the shapes that it is given; `models` are in the order of the shapes."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = tuple(models)
        self._names = [spec.name for spec in self.meta.inputs]
        self._by_shapes = {
            tuple(spec.shape for spec in model.meta.inputs): model for model in self.models
        }

    @property
    def meta(self) -> Meta:
        """What the model of the first shapes is; `others` of it are those of the rest."""
        return self.models[0].meta

    @property
    def report(self) -> Report:
        """What the compiler did for the first shapes."""
        return self.models[0].report

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run on arrays by name; return fresh arrays by name.

        Raises: StitchError for shapes that are none of the model's, and as `Model.run`.
        """
        if inputs.keys() != set(self._names):
            return self.models[0].run(inputs)  # which says what is wrong with the names
        return self._for([inputs[name] for name in self._names]).run(inputs)

    def __call__(self, *tensors: Any) -> Any:
        """Run on tensors in the inputs' order. Raises: as `run`."""
        if len(tensors) != len(self._names):
            return self.models[0](*tensors)
        return self._for(tensors)(*tensors)

    def export(self, path: str | os.PathLike) -> None:
        """Write all of it to one file, as `Model.export`."""
        self.models[0].export(path)

    def _for(self, tensors: Sequence[Any]) -> Model:
        shapes = tuple(tuple(map(int, np.shape(tensor))) for tensor in tensors)
        if shapes not in self._by_shapes:
            given = ", ".join(f"{n} {list(s)}" for n, s in zip(self._names, shapes, strict=True))
            known = [" and ".join(str(list(s)) for s in each) for each in self._by_shapes]
            more = f" or {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
            remedy = f"give {' or '.join(known[:_SHOWN])}{more}"
            raise StitchError(f"inputs {given}", "not compiled for such shapes", remedy)
        return self._by_shapes[shapes]
