"""Turn the rewritten graph into Relax with TVM's importer, weights as parameters."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Sequence

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from relay_passes.rewrites.legalize.named_legalize import REFUSALS
from relay_passes.transform import ProductsOfEinsum
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.importer.converters import converter_of
from tvm_stitch.frontend.model import ImportedModel, TensorSpec
from tvm_stitch.frontend.onnx_graph.dedupe import rename_inputs
from tvm_stitch.frontend.onnx_graph.graph import Graph, consumed, has_input, label, write_model
from tvm_stitch.frontend.origins import name_bindings
from tvm_stitch.frontend.relax_graph.fold_scales import fold_scales
from tvm_stitch.frontend.relax_graph.fold_weights import fold_weights
from tvm_stitch.frontend.relax_graph.sizes import check_sizes

# Inputs that the importer reads as values, not as tensors.
VALUE_INPUTS = {
    "Clip": (1, 2), "ConstantOfShape": (0,), "CumSum": (1,), "Dropout": (1, 2), "Expand": (1,),
    "OneHot": (1, 2), "Pad": (1, 2, 3), "Range": (0, 1, 2), "Reshape": (1,), "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,), "TopK": (1,),
    "Trilu": (1,), "Unsqueeze": (1,), "Upsample": (1,), "AffineGrid": (1,), "MaxUnpool": (2,),
    "NonMaxSuppression": (2, 3, 4), "Compress": (1,), "ScatterND": (1,), "ScatterElements": (1,),
    **{f"Reduce{kind}": (1,) for kind in ("Max", "Min", "Sum", "Mean", "Prod", "LogSumExp",
                                          "LogSum", "SumSquare", "L1", "L2")},
}  # fmt: skip
CONSTANT_INTEGERS = 64  # elements; longer integer constants become weights


class NodeRefused(StitchError):
    """TVM's importer refuses the node of a name, for a reason."""

    def __init__(self, given: object, op: str, node: str, reason: str) -> None:
        self.node, self.reason = node, reason
        place = f"{given}, {op} {node!r}".replace(" ''", "")
        rule = f"TVM's importer refuses it ({reason})"
        super().__init__(place, rule, "rewrite this part of the model")


def to_relax(graph: Graph, given: object) -> ImportedModel:
    """Import the graph.

    Raises: NodeRefused for a node that the importer refuses, StitchError for a result whose shape
    depends on data.
    """
    stays = _constants(graph)
    renamed = _identifiers(graph, [name for name in graph.constants if name not in stays])
    weights = [name for name in graph.constants if name not in stays]
    model = write_model(graph, lambda name, _: name in stays)
    _rename(model, renamed)
    _reorder(model.graph, [renamed[name] for name in weights])
    mod, origins = _import(model, graph.opset, given)
    check_sizes(mod["main"], given)
    mod["main"] = mod["main"].with_attr("num_input", len(graph.inputs))
    mod = ProductsOfEinsum()(mod)  # folding looks at products
    arrays = [graph.constants[name] for name in weights]
    main, arrays = fold_weights(mod["main"], len(graph.inputs), arrays)
    main, arrays = fold_scales(main, len(graph.inputs), arrays)
    mod["main"] = main
    # A sequence is a tuple too: of one output it would pass for several.
    made = [main.ret_ty] if len(graph.outputs) == 1 else output_types(main)
    return ImportedModel(
        mod=mod,
        inputs=tuple(
            tensor_spec(value.name, param.ty, given)
            for value, param in zip(graph.inputs, main.params, strict=False)
        ),
        outputs=_results(graph, made, given),
        weights=tuple(aligned(array) for array in arrays),
        origins=origins,
    )


def aligned(array: np.ndarray) -> np.ndarray:
    """Return the array C-contiguous and aligned to its items, itself where it already is."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.array(array, order="C", copy=True)


def output_types(main: relax.Function) -> list:
    ty = main.ret_ty
    return list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]


def _results(graph: Graph, types: Sequence, given: object) -> tuple[TensorSpec, ...]:
    makers = {name: f", {label(node)}" for node in graph.nodes for name in node.output}
    return tuple(
        tensor_spec(value.name, ty, f"{given}{makers.get(value.name, '')}")
        for value, ty in zip(graph.outputs, types, strict=False)
    )


def tensor_spec(name: str, ty: object, given: object) -> TensorSpec:
    """Describe an input or output.

    Raises: StitchError if it is no tensor or its shape is not static.
    """
    if not isinstance(ty, relax.TensorType):
        raise StitchError(f"{given}, {name!r}", f"it is {ty}, not a tensor", "use tensors only")
    if ty.dtype is None:
        raise StitchError(f"{given}, {name!r}", "its type is unknown", "use known operators")
    shape = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else [None]
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape):
        raise StitchError(
            f"{given}, {name!r}",
            "its shape depends on data",
            "a result has a fixed shape: end it inside the model, or leave it out",
        )
    return TensorSpec(name, tuple(int(extent) for extent in shape), str(ty.dtype.dtype))


def _constants(graph: Graph) -> set[str]:
    """Name the constants that stay: scalars, small integers, what converters read as values."""
    stays = {
        name
        for name, array in graph.constants.items()
        # TVM writes constants without elements but cannot read them back.
        if array.size == 1 or (array.dtype.kind in "iub" and 0 < array.size <= CONSTANT_INTEGERS)
    }
    for node in graph.nodes:
        for position in VALUE_INPUTS.get(node.op_type, ()):
            if has_input(node, position):
                stays.add(node.input[position])
        if node.op_type == "If":
            stays.update(consumed(node))
    return stays & graph.constants.keys()


def _identifiers(graph: Graph, weights: list[str]) -> dict[str, str]:
    """Give inputs and weights names that are identifiers and that no other value has."""
    taken = {name for node in graph.nodes for name in (*consumed(node), *node.output)}
    taken.update(graph.constants, (value.name for value in (*graph.inputs, *graph.outputs)))
    renamed: dict[str, str] = {}
    for name in (*(value.name for value in graph.inputs), *weights):
        stem = re.sub(r"\W", "_", name, flags=re.ASCII)
        stem = stem if stem[:1].isalpha() else f"t_{stem}"
        new, suffix = stem, 0
        while new != name and new in taken:
            suffix += 1
            new = f"{stem}_{suffix}"
        taken.add(new)
        renamed[name] = new
    return renamed


def _rename(model: onnx.ModelProto, renamed: dict[str, str]) -> None:
    rename_inputs(model.graph.node, renamed)
    for value in (*model.graph.input, *model.graph.output):
        value.name = renamed.get(value.name, value.name)


def _reorder(proto: onnx.GraphProto, weights: list[str]) -> None:
    """Put weights after the user's inputs, in their order, read or not."""
    values = {value.name: value for value in proto.input}
    order = [name for name in values if name not in set(weights)] + weights
    ordered = [values[name] for name in order]
    del proto.input[:]
    proto.input.extend(ordered)


class _Importer(ONNXGraphImporter):
    """The importer, naming the operator that it cannot convert; `made` pairs others with nodes."""

    def __init__(self, *args, **keywords) -> None:
        super().__init__(*args, **keywords)
        self.made: list[tuple[relax.Expr, str]] = []

    def from_onnx(self, graph, opset):
        done = False
        try:
            mod = super().from_onnx(graph, opset)
            done = True
            return mod
        finally:
            if not done:
                self._end_blocks()

    def _check_for_unsupported_ops(self, graph):
        """Leave it to the node that meets one, which is named."""

    def _end_blocks(self) -> None:
        """End what a refusal leaves open: TVM would warn of it, on a line of its own."""
        with contextlib.suppress(RuntimeError):  # there is none
            while True:
                self.bb._end_block()

    def _convert_operator(self, op_name, inputs, attrs, opset):
        name = attrs["tvm_custom"]["name"]
        try:
            if (converter := converter_of(op_name, attrs)) is not None:
                made = self.bb.normalize(converter(self.bb, inputs, attrs))
            else:
                made = super()._convert_operator(op_name, inputs, attrs, opset)
        except REFUSALS as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise _Refused(op_name, name, reason[-1]) from error
        fields = made.fields if isinstance(made, relax.Tuple) else [made]
        self.made += [(field, f"{op_name} {name!r}") for field in fields]
        return made


class _Refused(Exception):
    """A converter raised; holds the operator, the node's name, and its last line."""


def _drop_empty_attributes(node: onnx.NodeProto) -> None:
    """Remove empty lists, which the importer cannot parse; they mean the default."""
    lists = {onnx.AttributeProto.INTS: "ints", onnx.AttributeProto.FLOATS: "floats"}
    kept = [a for a in node.attribute if a.type not in lists or len(getattr(a, lists[a.type]))]
    if len(kept) < len(node.attribute):
        copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
        del node.attribute[:]
        node.attribute.extend(copies)


def _import(model: onnx.ModelProto, opset: int, given: object) -> tuple[IRModule, dict[str, str]]:
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    for node in model.graph.node:
        _drop_empty_attributes(node)
    importer = _Importer(shapes, "float32", sanitize=False)
    try:
        # The importer prints and warns about each refusal; ours is one line.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mod = importer.from_onnx(model.graph, opset)
    except _Refused as refused:
        raise NodeRefused(given, *refused.args) from refused
    except (AssertionError, ValueError) as error:
        # "Missing outputs": an optional output that a converter does not make.
        raise StitchError(
            given, f"TVM's importer refuses it ({error})", "rewrite this part of the model"
        ) from error
    mod["main"], origins = name_bindings(mod["main"], importer.made)
    return mod, origins
