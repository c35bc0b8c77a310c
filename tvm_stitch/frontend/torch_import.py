"""torch.export -> Relax, with TVM's frontend. Imported only for an ExportedProgram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import torch
import tvm
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from tvm.relax.frontend.torch import exported_program_translator

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.frontend.relax_import import finish
from tvm_stitch.frontend.to_relax import REFUSALS, output_types


class _Importer(exported_program_translator.ExportedProgramImporter):
    """The importer without its copies of parameters, which stay views of torch's."""

    @staticmethod
    def _convert_pytorch_tensor_to_tvm(tensor_value: torch.Tensor) -> tvm.runtime.Tensor:
        if isinstance(tensor_value, torch.nn.Parameter):
            return tvm.runtime.tensor(np.zeros(0, np.float32))
        convert = exported_program_translator.ExportedProgramImporter
        return convert._convert_pytorch_tensor_to_tvm(tensor_value)


def import_torch(program: ExportedProgram, shapes: Mapping[str, Sequence] | None) -> ImportedModel:
    """Import an exported program; its parameters become weights without a copy.

    Raises: StitchError for operators that TVM's frontend lacks and for unbound shapes.
    """
    given = "ExportedProgram"
    program = program.run_decompositions()
    try:
        mod = _Importer().from_exported_program(program, True, False, False, None)
    except REFUSALS as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise StitchError(
            given, f"TVM's torch importer refuses it ({reason})", "rewrite this part of the model"
        ) from error
    specs = program.graph_signature.input_specs
    names = [spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT]
    weights = [
        _view(program.state_dict[spec.target]) for spec in specs if spec.kind is InputKind.PARAMETER
    ]
    return finish(mod, names, _output_names(program, mod), weights, shapes, given)


def _view(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _output_names(program: ExportedProgram, mod: tvm.IRModule) -> list[str]:
    """Return the keys of a model that returns a dict, else output_0, output_1, ..."""
    count = len(output_types(mod["main"]))
    spec = program.call_spec.out_spec
    if spec is not None and spec.type is dict and len(spec.context) == count:
        return [str(key) for key in spec.context]
    return [f"output_{i}" for i in range(count)]
