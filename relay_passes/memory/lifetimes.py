"""Which tensors of a function are its kernels' own, and where each is read last."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relax

# A tensor that a kernel makes: the variable it is bound to, and which of a tuple of results.
Made = tuple[relax.Var, int]

_VIEWS = ("relax.reshape", "relax.memory.view")


class Lifetimes:
    """The tensors that kernels of `func` make for each other, views of them included.

    What leaves the function, and what anything but a kernel or a view reads, is not among them.
    """

    def __init__(self, func: relax.Function) -> None:
        self._made: dict[relax.Var, Made] = {}
        self._last: dict[Made, relax.Var] = {}
        self._kept: set[Made] = set()
        self._tuples: set[relax.Var] = set()
        for block in func.body.blocks:
            for binding in block.bindings:
                self._visit(binding)
        self._keep(func.body.body)

    def made(self, expr: relax.Expr) -> Made | None:
        """Return the tensor that an argument is, or views, if it is one of these."""
        found = self._made.get(expr) if isinstance(expr, relax.Var) else None
        return None if found in self._kept else found

    def results(self, var: relax.Var) -> list[Made | None]:
        """Return what a kernel's binding makes, None for what is not one of these."""
        count = len(var.ty.fields) if isinstance(var.ty, relax.TupleType) else 1
        return [None if (var, n) in self._kept else (var, n) for n in range(count)]

    def dies_at(self, made: Made, var: relax.Var) -> bool:
        """Return whether the binding of `var` is the last to read a tensor."""
        return self._last.get(made) == var

    def _visit(self, binding: relax.Binding) -> None:
        var, value = binding.var, binding.value
        if is_kernel_call(value):
            for argument in value.args[1].fields:
                if (made := self._of(argument)) is not None:
                    self._last[made] = var
                else:
                    self._keep(argument)
            if isinstance(var.ty, relax.TupleType):
                self._tuples.add(var)
            else:
                self._made[var] = (var, 0)
        elif isinstance(value, relax.TupleGetItem) and value.tuple_value in self._tuples:
            self._made[var] = (value.tuple_value, int(value.index))
        elif (viewed := viewed_by(value)) is not None and viewed in self._made:
            self._made[var] = self._made[viewed]
        else:
            self._keep(value)

    def _of(self, expr: relax.Expr) -> Made | None:
        return self._made.get(expr) if isinstance(expr, relax.Var) else None

    def _keep(self, expr: relax.Expr) -> None:
        for var in relax.analysis.free_vars(expr):
            if var in self._tuples:
                self._kept |= {(var, n) for n in range(len(var.ty.fields))}
            elif var in self._made:
                self._kept.add(self._made[var])


def is_kernel_call(value: relax.Expr) -> bool:
    """Return whether an expression calls a PrimFunc with a tuple of tensors, and nothing else."""
    if not isinstance(value, relax.Call) or getattr(value.op, "name", "") != "relax.call_tir":
        return False
    return len(value.args) == 2 and isinstance(value.args[1], relax.Tuple)


def kernel_calls(func: relax.Function) -> Iterator[relax.VarBinding]:
    for block in func.body.blocks:
        for binding in block.bindings:
            if is_kernel_call(binding.value):
                yield binding


def viewed_by(value: relax.Expr) -> relax.Var | None:
    """Return the variable whose memory an expression has."""
    if isinstance(value, relax.Var):
        return value
    is_view = isinstance(value, relax.Call) and getattr(value.op, "name", "") in _VIEWS
    return value.args[0] if is_view and isinstance(value.args[0], relax.Var) else None
