"""Read a model from ONNX, torch.export or Relax into one form."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from tvm.ir import IRModule

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.model import ImportedModel, TensorSpec
from tvm_stitch.frontend.onnx_import import import_onnx
from tvm_stitch.frontend.relax_import import import_relax

__all__ = ["ImportedModel", "TensorSpec", "import_model", "is_torch_module"]


def import_model(
    model: str | os.PathLike | onnx.ModelProto | IRModule | object,
    shapes: Mapping[str, Sequence] | None = None,
    values: Mapping[str, object] | None = None,
    fallback: str = "refuse",
) -> ImportedModel:
    """Import a path to an ONNX file, a ModelProto, a torch ExportedProgram or a Relax module.

    Raises: StitchError for anything else, and for whatever the model, `shapes` or `values` get
    wrong.
    """
    if isinstance(model, str | os.PathLike):
        return import_onnx(Path(model), shapes, values, fallback)
    if isinstance(model, onnx.ModelProto):
        return import_onnx(model, shapes, values, fallback)
    if values:
        given = f"values of a {type(model).__name__}"
        raise StitchError(given, "only inputs of ONNX models take values", "leave them out")
    if isinstance(model, IRModule):
        return import_relax(model, shapes)
    if _is_exported_program(model):
        from tvm_stitch.frontend.torch_import import import_torch

        return import_torch(model, shapes)
    if is_torch_module(model):
        rule, remedy = "a module by itself has no graph", "give example_inputs=, or export it"
        raise StitchError(f"module {type(model).__name__}", rule, remedy)
    raise StitchError(
        f"a {type(model).__name__}",
        "not a model",
        "give a path to an ONNX file, an onnx.ModelProto, a torch.export.ExportedProgram or an "
        "IRModule",
    )


def is_torch_module(model: object) -> bool:
    """Recognise a torch.nn.Module by its class's bases, without importing torch."""
    return any(kind.__module__ == "torch.nn.modules.module" for kind in type(model).__mro__)


def _is_exported_program(model: object) -> bool:
    """Recognise the class by name: torch is optional and slow to import."""
    kind = type(model)
    return kind.__name__ == "ExportedProgram" and kind.__module__.startswith("torch.")
