"""Taking a model's weights out of the parameters of its `main`."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax
from tvm.ir import Constant, IRModule

# Functions of native/bundle.cc.
WEIGHTS, DEVICE_WEIGHTS = "tvm_stitch_weights", "tvm_stitch_device_weights"


def fetch_weights(mod: IRModule, fetched: str = WEIGHTS) -> IRModule:
    """Let `main` fetch its weights from the library it is linked into, by a function of that.

    rewrite:
        main(x, w, b): body                     # attribute num_input = 1
      -> main(x):
             weights = call_pure_packed("tvm_stitch_weights")
             w = weights[0]; b = weights[1]
             body
    """
    main = mod["main"]
    if not main.attrs or "num_input" not in main.attrs:
        return mod
    count = int(main.attrs["num_input"])
    body = _with_fetched(main.body, main.params[count:], fetched)
    function = relax.Function(
        list(main.params[:count]), body, main.ret_ty, main.is_pure, main.attrs
    ).without_attr("num_input")
    rewritten = IRModule(mod.functions, attrs=mod.attrs)
    rewritten["main"] = function
    return relax.transform.Normalize()(rewritten)


def _with_fetched(body: relax.SeqExpr, weights: Sequence[relax.Var], fetched: str) -> relax.SeqExpr:
    """Bind what were parameters before the first block."""
    if not weights:
        return body
    kind = relax.TupleType([weight.ty for weight in weights])
    everything = relax.Var("weights", kind)
    fetch = relax.call_pure_packed(fetched, ty_args=kind)
    bindings = [relax.VarBinding(everything, fetch)]
    for index, weight in enumerate(weights):
        bindings.append(relax.VarBinding(weight, relax.TupleGetItem(everything, index)))
    return relax.SeqExpr([relax.BindingBlock(bindings), *body.blocks], body.body)


def constant_outputs(mod: IRModule) -> tuple[int, ...]:
    """Return the positions of the outputs of `main` that are, or may view, constants of the model.

    Their memory is the executable's own, the same in every run.
    """
    main = mod["main"]
    bound = {}
    for block in main.body.blocks:
        for binding in block.bindings:
            bound[binding.var] = binding.value
    outputs = _resolve(main.body.body, bound)
    fields = outputs.fields if isinstance(outputs, relax.Tuple) else [outputs]
    return tuple(i for i, field in enumerate(fields) if _may_be_constant(_resolve(field, bound)))


def makes_new_outputs(mod: IRModule) -> bool:
    """Return whether each output of `main` is the result of a kernel, and of no other output's."""
    main = mod["main"]
    bound = {b.var: b.value for block in main.body.blocks for b in block.bindings}
    outputs = _resolve(main.body.body, bound)
    fields = outputs.fields if isinstance(outputs, relax.Tuple) else [outputs]
    made = [_resolve(field, bound) for field in fields]
    distinct = all(not a.same_as(b) for i, a in enumerate(made) for b in made[:i])
    return distinct and all(_is_kernel_result(value, bound) for value in made)


def _is_kernel_result(value: relax.Expr, bound: dict) -> bool:
    if isinstance(value, relax.TupleGetItem):
        value = _resolve(value.tuple_value, bound)
    return isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir"


def _resolve(expr: relax.Expr, bound: dict) -> relax.Expr:
    while expr in bound:
        expr = bound[expr]
    return expr


def _may_be_constant(expr: relax.Expr) -> bool:
    if isinstance(expr, Constant):
        return True
    if not isinstance(expr, relax.Call):
        return False
    tensors = [arg for arg in _leaves(expr.args) if isinstance(arg.ty, relax.TensorType)]
    return bool(tensors) and all(isinstance(arg, Constant) for arg in tensors)


def _leaves(args: list) -> list:
    found = []
    for arg in args:
        found += _leaves(arg.fields) if isinstance(arg, relax.Tuple) else [arg]
    return found
