"""Let the loaded library make what depends on one weight alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tvm import ir, relax, te, tirx
from tvm.ir import IRModule
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_passes.rewrites.weights import static_shape
from tir_schedules.fuel import spend
from tvm_stitch.frontend.relax_graph.fold_weights import Layout
from tvm_stitch.frontend.relax_graph.layout_step import LayoutStep, layout_step
from tvm_stitch.runtime.artifact import Prepared, prepare_name


def prepare_weights(mod: IRModule) -> tuple[IRModule, tuple[Prepared, ...]]:
    """Turn what `main` makes of single weights for its kernels into weights behind the others.

    That are results of kernels, and layouts that kernels read: operators may yet be fused with the
    layouts that they read. Each is the work of a PrimFunc `prepare_name(number)` that nothing in
    the module calls.

    rewrite:
        main(x, w): p = call_tir(transform, (w,)); gv = call_tir(convolve, (x, p))
      -> main(x, w, p): gv = call_tir(convolve, (x, p))
         tvm_stitch_prepare_0 = transform
    """
    main = mod["main"]
    inputs = int(main.attrs["num_input"])
    lifter = _Lifter(mod, main.params[inputs:])
    body = lifter.visit_expr(main.body)
    if not lifter.prepared:
        return mod, ()
    params = [*main.params[:inputs], *lifter.weights]
    lifted = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    functions = dict(mod.functions_items())
    functions[mod.get_global_var("main")] = relax.analysis.remove_all_unused(lifted)
    for number, kernel in enumerate(lifter.kernels):
        name = prepare_name(number)
        functions[ir.GlobalVar(name)] = kernel.with_attr("global_symbol", name)
    return IRModule(functions, attrs=mod.attrs), tuple(lifter.prepared)


@mutator
class _Lifter(PyExprMutator):
    """`weights` are the parameters and, behind them, one for each of `prepared`."""

    def __init__(self, mod: IRModule, weights: Sequence[relax.Var]) -> None:
        super().__init__()
        self._mod, self.weights = mod, list(weights)
        self.prepared: list[Prepared] = []
        self.kernels: list[tirx.PrimFunc] = []
        self._layouts: dict[relax.Var, Layout] = {var: (var, ()) for var in weights}
        self._positions = {var: position for position, var in enumerate(weights)}
        self._made: dict[tuple, relax.Var] = {}
        self._numbers: dict[object, int] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var, value = binding.var, binding.value
        if (step := layout_step(value)) is not None and value.args[0] in self._layouts:
            source, steps = self._layouts[value.args[0]]
            self._layouts[var] = source, (*steps, step)
        elif isinstance(var, relax.DataflowVar) and (made := self._result(value)) is not None:
            self._layouts[var] = made, ()
            self.set_var_remap(var, made)
            return
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if _is_kernel(call):
            function, arguments, *more = call.args
            fields = [self._laid_out(argument) for argument in arguments.fields]
            args = [function, relax.Tuple(fields), *more]
            call = relax.Call(call.op, args, call.attrs, call.ty_args, ret_ty=call.ty)
        return self.visit_expr_post_order(call)

    def _result(self, value: relax.Expr) -> relax.Var | None:
        """Return the weight that a kernel makes of one, None if `value` is something else."""
        if not _is_kernel(value) or len(value.args) != 2 or static_shape(value) is None:
            return None
        gvar, arguments = value.args
        if len(arguments.fields) != 1 or arguments.fields[0] not in self._layouts:
            return None
        source = self._laid_out(arguments.fields[0])
        if source not in self._positions:
            return None
        return self._prepare(source, gvar, value.ty, lambda: self._mod[gvar])

    def _laid_out(self, argument: relax.Expr) -> relax.Expr:
        """Return the weight that holds a layout of one, or the argument itself."""
        source, steps = self._layouts.get(argument, (argument, ()))
        if not steps:
            return source
        key = (static_shape(source), str(source.ty.dtype), steps)
        made = self._prepare(source, key, argument.ty, functools.partial(_copy, *key))
        return argument if made is None else made

    def _prepare(
        self, source: relax.Var, key: object, ty: ir.Type, kernel: Callable[[], tirx.PrimFunc]
    ) -> relax.Var | None:
        """Return the weight that a kernel, known by `key`, makes of another, if fuel is left."""
        if (source, key) in self._made:
            return self._made[source, key]
        if not spend("prepare_weights", source.name):
            return None
        if key not in self._numbers:
            self._numbers[key] = len(self.kernels)
            self.kernels.append(kernel())
        made = relax.Var(f"prepared_{len(self.prepared)}", ty)
        shape = tuple(map(int, ty.shape.values))
        record = Prepared(self._numbers[key], self._positions[source], shape, str(ty.dtype))
        self._positions[made] = len(self.weights)
        self.weights.append(made)
        self.prepared.append(record)
        self._made[source, key] = made
        return made


def _is_kernel(value: relax.Expr) -> bool:
    """Return whether an expression calls a kernel with a tuple of arguments."""
    called = isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir"
    return called and isinstance(value.args[1], relax.Tuple)


def _copy(shape: tuple[int, ...], dtype: str, steps: tuple[LayoutStep, ...]) -> tirx.PrimFunc:
    x = te.placeholder(shape, dtype)
    made = functools.reduce(lambda value, step: step.tensor(value), steps, x)
    return te.create_prim_func([x, made])
