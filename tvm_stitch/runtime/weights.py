"""Taking a model's weights out of the parameters of each `main`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tvm import ir, relax
from tvm.ir import Constant, IRModule

# Functions of native/bundle.cc.
WEIGHTS, DEVICE_WEIGHTS = "tvm_stitch_weights", "tvm_stitch_device_weights"


def fetch_weights(
    mod: IRModule,
    fetched: str = WEIGHTS,
    places: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> IRModule:
    """Let each `main` fetch its weights from the library it is linked into, by a function of that.

    `places` are the numbers of its weights among all of the library, by the name of the function;
    without them they are all, in their order. Runs behind CallTIRRewrite: its call is not pure.

    rewrite:
        main(x, w, b): body                     # attribute num_input = 1
      -> main(x):
             weights = call_packed("tvm_stitch_weights")
             w = weights[0]; b = weights[1]
             body
    """
    mains = {v: f for v, f in mod.functions_items() if f.attrs and "num_input" in f.attrs}
    rewritten = IRModule(mod.functions, attrs=mod.attrs)
    numbers: dict[ir.GlobalVar, Sequence[int]] = {}
    kinds: dict[int, ir.Type] = {}
    for var, main in mains.items():
        weights = main.params[int(main.attrs["num_input"]) :]
        numbers[var] = places.get(var.name_hint, range(len(weights)))
        kinds |= {n: w.ty for n, w in zip(numbers[var], weights, strict=True)}
    everything = relax.TupleType([kinds[number] for number in range(len(kinds))])
    for var, main in mains.items():
        count = int(main.attrs["num_input"])
        weights = dict(zip(numbers[var], main.params[count:], strict=True))
        body = _with_fetched(main.body, weights, everything, fetched)
        function = relax.Function(
            list(main.params[:count]), body, main.ret_ty, main.is_pure, main.attrs
        )
        rewritten[var] = function.without_attr("num_input")
    return relax.transform.Normalize()(rewritten) if mains else mod


def _with_fetched(
    body: relax.SeqExpr, weights: Mapping[int, relax.Var], kind: relax.TupleType, fetched: str
) -> relax.SeqExpr:
    """Bind what were parameters before the first block."""
    if not weights:
        return body
    everything = relax.Var("weights", kind)
    fetch = relax.Call(relax.ExternFunc(fetched), [], ty_args=[kind])
    bindings = [relax.VarBinding(everything, fetch)]
    for number, weight in weights.items():
        bindings.append(relax.VarBinding(weight, relax.TupleGetItem(everything, number)))
    return relax.SeqExpr([relax.BindingBlock(bindings), *body.blocks], body.body)


def constant_outputs(mod: IRModule, entry: str = "main") -> tuple[int, ...]:
    """Return the positions of the outputs of `main` that are, or may view, constants of the model.

    Their memory is the executable's own, the same in every run.
    """
    main = mod[entry]
    bound = {}
    for block in main.body.blocks:
        for binding in block.bindings:
            bound[binding.var] = binding.value
    outputs = _resolve(main.body.body, bound)
    fields = outputs.fields if isinstance(outputs, relax.Tuple) else [outputs]
    return tuple(i for i, field in enumerate(fields) if _may_be_constant(_resolve(field, bound)))


def makes_new_outputs(mod: IRModule, entry: str = "main") -> bool:
    """Return whether each output of `main` is the result of a kernel, and of no other output's."""
    main = mod[entry]
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
