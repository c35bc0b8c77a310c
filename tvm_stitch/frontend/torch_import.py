"""torch.export -> Relax, with TVM's frontend. Imported only for an ExportedProgram."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import ml_dtypes
import numpy as np
import torch
import tvm
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from tvm import relax
from tvm.relax.frontend.torch import exported_program_translator

from relay_passes.rewrites.legalize.named_legalize import REFUSALS
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.frontend.relax_import import finish
from tvm_stitch.frontend.to_relax import output_types
from tvm_stitch.frontend.torch_graph.folding import fold_parameters
from tvm_stitch.frontend.torch_ops.arithmetic import binary, unary
from tvm_stitch.frontend.torch_ops.compared import Convert, compared
from tvm_stitch.frontend.torch_ops.converters import CONVERTERS, with_copies
from tvm_stitch.frontend.torch_ops.recurrent import RECURRENT_OPS
from tvm_stitch.frontend.torch_ops.spectra import SPECTRA, is_complex

# What torch.export raises for a module that it does not take; its own errors are of these.
NOT_EXPORTED = (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError)


class _Builder(relax.BlockBuilder):
    """Emits products in their operands' type: the importer asks for float32 whatever they are."""

    def emit(self, expr: relax.Expr, name_hint: str = "") -> relax.Var:
        return super().emit(_in_own_dtype(expr), name_hint)


def _in_own_dtype(expr: relax.Expr) -> relax.Expr:
    """rewrite: matmul(a, b, out_dtype="float32") -> matmul(a, b, out_dtype=a's)"""
    if not isinstance(expr, relax.Call) or not isinstance(expr.op, tvm.ir.Op):
        return expr
    if getattr(expr.attrs, "out_dtype", None) is None:
        return expr
    kind = type(expr.attrs).__tvm_ffi_type_info__
    fields = {field.name: getattr(expr.attrs, field.name) for field in kind.fields}
    fields["out_dtype"] = expr.args[0].ty.dtype.dtype
    attrs = tvm.ir.make_node(kind.type_key, **fields)
    return relax.Call(expr.op, expr.args, attrs, expr.ty_args)


class _Importer(exported_program_translator.ExportedProgramImporter):
    """The importer with our converters, each one's type compared with PyTorch's own.

    Parameters are not copied: they stay views of torch's.
    """

    def create_convert_map(self) -> dict[str, Convert]:
        ours = {name: functools.partial(c, importer=self) for name, c in CONVERTERS.items()}
        converters = with_copies({**super().create_convert_map(), **ours})
        complex_ = {name: functools.partial(c, importer=self) for name, c in SPECTRA.items()}
        return {
            name: functools.partial(
                compared, converters.get(name), complex_.get(name), importer=self
            )
            for name in converters.keys() | complex_.keys()
        }

    def _unary_op(self, op: Callable) -> Convert:
        return functools.partial(unary, op=op, importer=self)

    def _binary_op(self, relax_op: Callable, intrinsic_op: Callable) -> Convert:
        otherwise = super()._binary_op(relax_op, intrinsic_op)
        return functools.partial(binary, op=relax_op, importer=self, otherwise=otherwise)

    @property
    def block_builder(self) -> relax.BlockBuilder:
        return self._builder

    @block_builder.setter
    def block_builder(self, builder: relax.BlockBuilder | None) -> None:
        self._builder = None if builder is None else _Builder()

    @staticmethod
    def _convert_pytorch_tensor_to_tvm(tensor_value: torch.Tensor) -> tvm.runtime.Tensor:
        if isinstance(tensor_value, torch.nn.Parameter):
            return tvm.runtime.tensor(np.zeros(0, np.float32))
        convert = exported_program_translator.ExportedProgramImporter
        return convert._convert_pytorch_tensor_to_tvm(tensor_value)


def converted_names() -> frozenset[str]:
    """Return the names of the operators that have a converter."""
    return frozenset(_Importer().create_convert_map())


def import_torch(program: ExportedProgram, shapes: Mapping[str, Sequence] | None) -> ImportedModel:
    """Import an exported program; its parameters become weights without a copy.

    Raises: StitchError for operators that TVM's frontend lacks and for unbound shapes.
    """
    given = "ExportedProgram"
    with _reshaping(program):
        program = program.run_decompositions(decompositions())
    refuse_mutations(program, given)
    _refuse_complex_edges(program.graph, given)
    program = fold_parameters(program)
    importer = _Importer()
    try:
        mod = importer.from_exported_program(
            program,
            keep_params_as_input=True,
            unwrap_unit_return_tuple=True,
            no_bind_return_tuple=False,
            custom_convert_map=None,  # ours are in the importer
        )
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
    outputs = _output_names(program, mod)
    made = [(expr, _label(node)) for node, expr in importer.env.items() if _is_made(node, expr)]
    return finish(mod, names, weights, made, shapes=shapes, given=given, outputs=outputs)


def exported(module: torch.nn.Module, inputs: Sequence[object], given: str) -> ExportedProgram:
    """Return a module as torch.export has it on such inputs, in eval mode; it stays as it was.

    Raises: StitchError for one that torch.export refuses.
    """
    modes = [(each, each.training) for each in module.modules()]
    try:
        with torch.no_grad():
            return torch.export.export(module.eval(), tuple(inputs), strict=False)
    except NOT_EXPORTED as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        rule = f"torch.export refuses it ({reason})"
        raise StitchError(given, rule, "export it yourself, or run it eagerly") from error
    finally:
        for each, training in modes:
            each.training = training


def decompositions() -> dict:
    """Return PyTorch's decompositions but for the operators that are imported whole."""
    table = torch.export.default_decompositions()
    # PyTorch's decomposition of take asks what its index is.
    for op in (*RECURRENT_OPS, torch.ops.aten.take.default):
        table.pop(op, None)
    return table


def refuse_mutations(program: ExportedProgram, given: str) -> None:
    """Raise StitchError for a program that writes over what it is given, or over a buffer."""
    signature = program.graph_signature
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        rule = f"it writes over {changed[0]!r}"
        raise StitchError(given, rule, "return what it writes, or export it in eval mode")


def _refuse_complex_edges(graph: fx.Graph, given: str) -> None:
    """Raise StitchError for complex numbers that a program is given, holds or returns."""
    (output,) = graph.find_nodes(op="output")
    for node in (*graph.find_nodes(op="placeholder"), *output.all_input_nodes):
        if is_complex(node.meta.get("val")):
            remedy = "hand over torch.view_as_real of them"
            raise StitchError(given, f"{node.name!r} has complex numbers", remedy)


@contextlib.contextmanager
def _reshaping(program: ExportedProgram) -> Iterator[None]:
    """Let views copy where they must: decomposed attention may give other strides than it had."""
    view, reshape = torch.ops.aten.view.default, torch.ops.aten.reshape.default
    nodes = [node for node in program.graph.nodes if node.target is view]
    for node in nodes:
        node.target = reshape
    try:
        yield
    finally:
        for node in nodes:
            node.target = view


def _is_made(node: torch.fx.Node, expr: object) -> bool:
    return node.op == "call_function" and isinstance(expr, relax.Expr)


def _label(node: torch.fx.Node) -> str:
    """Return a node's name and the path of the module that holds it, where that is known."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return f"{node.name} in {path}" if path else node.name


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
