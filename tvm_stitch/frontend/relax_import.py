"""Relax -> Relax: bind shapes, move large constants out of the graph, trace index inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from tvm import relax, sym, tirx
from tvm.ir import GenericConst, IRModule
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_passes.rewrites.weights import static_shape
from relay_passes.transform import ProductsOfEinsum
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.divisors import check_divisions
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.frontend.origins import name_bindings
from tvm_stitch.frontend.relax_graph.bounds import bound_inputs
from tvm_stitch.frontend.relax_graph.fold_batch_norm import fold_batch_norm
from tvm_stitch.frontend.relax_graph.fold_scales import fold_scales
from tvm_stitch.frontend.relax_graph.fold_weights import fold_weights
from tvm_stitch.frontend.relax_graph.sizes import check_sizes
from tvm_stitch.frontend.relax_graph.values import Values
from tvm_stitch.frontend.shapes import check_requested, refuse_free
from tvm_stitch.frontend.to_relax import (
    CONSTANT_INTEGERS,
    aligned,
    output_types,
    tensor_spec,
)

ToNumpy = Callable[[object], np.ndarray]


def import_relax(mod: IRModule, shapes: Mapping[str, Sequence] | None) -> ImportedModel:
    """Import a module whose `main` is a Relax function, left as it is.

    Parameters after the first `num_input` are weights if attribute `params` holds their values, as
    TVM's ONNX importer leaves them; otherwise every parameter is an input.
    Raises: StitchError if there is no such `main`, or `shapes` do not fit it.
    """
    given = "IRModule"
    if "main" not in [var.name_hint for var in mod.get_global_vars()]:
        raise StitchError(given, "it has no function main", "name the entry function main")
    main = mod["main"]
    if not isinstance(main, relax.Function):
        raise StitchError(given, "main is not a Relax function", "give a Relax module")
    values = list((main.attrs or {}).get("params") or [])
    count = len(main.params) - len(values)
    names = [param.name for param in main.params[:count]]
    weights = [value.numpy() for value in values]
    blocks = main.body.blocks if isinstance(main.body, relax.SeqExpr) else []
    made = [(binding.var, binding.var.name) for block in blocks for binding in block.bindings]
    return finish(mod, names, weights, made, shapes=shapes, given=given)


def finish(
    mod: IRModule,
    names: Sequence[str],
    weights: Sequence[np.ndarray],
    made: Iterable[tuple[relax.Expr, str]],
    *,
    shapes: Mapping[str, Sequence] | None,
    given: str,
    outputs: Sequence[str] | None = None,
) -> ImportedModel:
    """Complete an import: `names` are those of the first parameters, the inputs; the rest weights.

    `made` pairs what was made of the model's nodes with them, as `name_bindings` takes it. Outputs
    are called output_0, output_1, ... if `outputs` does not name them.
    """
    main, origins = name_bindings(mod["main"], made)
    mod = IRModule(mod.functions, attrs=mod.attrs)
    mod["main"] = main
    mod = _bind(mod, names, shapes, given)
    check_sizes(mod["main"], given)
    main, lifted = _lift_constants(mod["main"])
    values = Values.of(main, [*weights, *lifted])
    check_divisions(values, given)
    bounds = bound_inputs(main, names, values, given)
    main, arrays = fold_batch_norm(main, len(names), [*weights, *lifted])
    main = main.without_attr("params").with_attr("num_input", len(names))
    mod = IRModule({**{v: f for v, f in mod.functions_items() if v.name_hint != "main"}})
    mod["main"] = main
    mod = ProductsOfEinsum()(mod)  # folding looks at products
    main, arrays = fold_weights(mod["main"], len(names), arrays)
    main, arrays = fold_scales(main, len(names), arrays)
    mod["main"] = main
    types = output_types(main)
    outputs = outputs or [f"output_{i}" for i in range(len(types))]
    return ImportedModel(
        mod=mod,
        inputs=tuple(
            tensor_spec(name, param.ty, given)
            for name, param in zip(names, main.params, strict=False)
        ),
        outputs=tuple(
            tensor_spec(name, ty, given) for name, ty in zip(outputs, types, strict=True)
        ),
        weights=tuple(aligned(array) for array in arrays),
        index_bounds=bounds,
        origins=origins,
    )


def _bind(
    mod: IRModule, names: Sequence[str], shapes: Mapping[str, Sequence] | None, given: str
) -> IRModule:
    """Give every symbolic extent of the inputs its value from `shapes`."""
    requested = check_requested(shapes, names)
    declared = {
        name: list(param.ty.shape.values)
        for name, param in zip(names, mod["main"].params, strict=False)
        # tensor_spec refuses others by name
        if isinstance(param.ty, relax.TensorType) and isinstance(param.ty.shape, relax.ShapeExpr)
    }
    binding: dict[tirx.Var, int] = {}
    for name, extents in declared.items():
        shape = requested.get(name, ())
        if name in requested and len(shape) != len(extents):
            raise StitchError(
                f"shape {shape} of {name!r}",
                f"it has {len(shape)} axes, not {len(extents)}",
                f"the model declares {relax.ShapeExpr(extents)}",
            )
        for extent, value in zip(extents, shape, strict=False):
            if isinstance(extent, tirx.Var):
                binding.setdefault(extent, value)
    known = {
        name: [_extent(extent, binding) for extent in extents] for name, extents in declared.items()
    }
    for name, extents in declared.items():
        shape = requested.get(name, known[name])
        for extent, value, have in zip(extents, shape, known[name], strict=True):
            if have != value:
                raise StitchError(
                    f"shape {shape} of {name!r}",
                    f"{value} contradicts {extent}",
                    f"the model declares {relax.ShapeExpr(extents)}",
                )
    refuse_free(f"{given}, inputs", known)
    return relax.transform.BindSymbolicVars(binding, "main")(mod) if binding else mod


def _extent(extent: tirx.PrimExpr, binding: Mapping[tirx.Var, int]) -> int | str:
    """Return an extent's value, or what it is where that is not known."""
    analyzer = sym.Analyzer()
    for var, value in binding.items():
        analyzer.bind(var, value)
    bound = analyzer.simplify(extent)
    return int(bound) if isinstance(bound, tirx.IntImm) else str(extent)


def _lift_constants(main: relax.Function) -> tuple[relax.Function, list[np.ndarray]]:
    """Turn constants that are neither scalar nor small integers into trailing parameters.

    So is what has no elements: TVM writes constants of no bytes, and then does not read them.
    """
    lifter = _Lifter()
    body = lifter.visit_expr(main.body)
    if not lifter.params:
        return main, []
    lifted = relax.Function(
        [*main.params, *lifter.params.values()], body, main.ret_ty, main.is_pure, main.attrs
    )
    return lifted, [constant.value.numpy() for constant in lifter.params]


@mutator
class _Lifter(PyExprMutator):
    """Replaces each distinct constant by a variable, calls that make no elements too."""

    def __init__(self) -> None:
        super().__init__()
        self.params: dict[GenericConst, relax.Var] = {}
        self._empty: dict[tuple, GenericConst] = {}

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        shape = static_shape(op) if isinstance(op.ty, relax.TensorType) else None
        if shape is None or math.prod(shape):
            return super().visit_call_(op)
        dtype = str(op.ty.dtype)
        constant = relax.const(np.empty(shape), dtype)
        return self.visit_expr(self._empty.setdefault((tuple(shape), dtype), constant))

    def visit_generic_const_(self, op: GenericConst) -> relax.Expr:
        if not isinstance(op.ty, relax.TensorType):
            return op
        shape = [int(extent) for extent in op.ty.shape.values]
        size = int(np.prod(shape, dtype=np.int64))
        integer = np.dtype(op.value.dtype).kind in "iub"
        if not shape or (integer and 0 < size <= CONSTANT_INTEGERS):
            return op
        if op not in self.params:
            self.params[op] = relax.Var(f"constant_{len(self.params)}", op.ty)
        return self.params[op]
