"""Products of matrices that are written as einsum.

TVM makes one loop nest of an einsum: no operand need be contiguous along its lanes, no weight is
laid out, and attention is not seen as such.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np
import tvm
from tvm import ir, relax
from tvm.ir import IRModule
from tvm.ir.transform import PassContext
from tvm.relax.expr_functor import PyExprMutator, mutator

from tir_schedules.fuel import spend

from ...graph.graph_functions import rewritten
from ..weights import static_shape
from .equation import Equation, Labels, parse
from .product import Contraction, Groups, Operand, apart, flat

logger = logging.getLogger(__name__)

_WIDE = ("float32", "float64")
_HALF = ("float16", "bfloat16")
# The name of an operator, and the order of axes or the shape that it is given.
Step = tuple[str, Sequence[int]]
_LAYOUT = ("relax.permute_dims", "relax.reshape", "relax.expand_dims", "relax.squeeze")


@tvm.transform.module_pass(opt_level=0, name="ProductsOfEinsum")
class ProductsOfEinsum:
    """Turn an einsum of two operands that contracts axes of both into a product of matrices.

    rewrite: einsum((x[b, h, l, k], y[b, h, t, k]), "bhlk,bhtk->bhlt")
          -> matmul(x, permute_dims(y, [0, 1, 3, 2]))
             einsum((x[i, b, h], w[h, n, d]), "ibh,hnd->ibnd")
          -> reshape(matmul(x, reshape(w, [h, n * d])), [i, b, n, d])
             einsum((x[i, j], y[j, k, l]), "ij,jkl->ik")
          -> matmul(x, sum(y, [2]))

    Weights are constants and the parameters behind `num_input`. Runs before all that looks at
    products.
    """

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        return rewritten(mod, lambda mod, func: _Rewriter(mod, _weights(func)))


def _weights(func: relax.Function) -> list[relax.Var]:
    inputs = func.attrs.get("num_input") if func.attrs else None
    return [] if inputs is None else list(func.params[int(inputs) :])


@mutator
class _Rewriter(PyExprMutator):
    """`weights` are parameters; what only lays out a weight is one too."""

    def __init__(self, mod: IRModule, weights: Sequence[relax.Var]) -> None:
        super().__init__(mod)
        self.found = False
        self._weights: set[relax.Expr] = set(weights)
        self._tuples: dict[relax.Expr, relax.Tuple] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        value, name = binding.value, binding.var.name
        if isinstance(value, relax.Tuple):
            self._tuples[binding.var] = value
        elif _calls(value, *_LAYOUT) and value.args[0] in self._weights:
            self._weights.add(binding.var)
        elif _calls(value, "relax.einsum"):
            made = self._product(value, name)
            if made is not None:
                self.found = True
                binding = relax.VarBinding(binding.var, made)
        super().visit_var_binding_(binding)

    def _product(self, call: relax.Call, name: str) -> relax.Expr | None:
        """Return the last operator of the product that a call is, None if it is better alone."""
        given = self._tuples.get(call.args[0], call.args[0])
        fields = list(given.fields) if isinstance(given, relax.Tuple) else []
        if reason := _refuse(call, fields):
            logger.debug("ProductsOfEinsum: %s: %s", name, reason)
            return None
        weights = [isinstance(each, ir.Constant) or each in self._weights for each in fields]
        equation = _equation(call, fields)
        einsum = _contraction(equation, fields, weights)
        product = einsum.cheapest()
        if einsum.is_better_alone(product):
            logger.debug("ProductsOfEinsum: %s: it has lanes that a product would lose", name)
            return None
        if not spend("ProductsOfEinsum", name):
            return None
        sides = self._summed_up(equation, fields, name)
        pairs = list(zip(sides, einsum.operands, strict=True))
        order = pairs[::-1] if product.swapped else pairs
        left, right = (
            self._laid_out(x, _steps(einsum, static_shape(x), operand.labels, groups), name)
            for (x, operand), groups in zip(order, (product.left, product.right), strict=True)
        )
        made, have = relax.op.matmul(left, right), product.made
        for kind, numbers in _steps(einsum, einsum.shape(have), flat(have), apart(einsum.result)):
            made = getattr(relax.op, kind)(self.builder_.emit(made, f"{name}_product"), numbers)
        return made

    def _summed_up(
        self, equation: Equation, fields: Sequence[relax.Expr], name: str
    ) -> list[relax.Expr]:
        """Return the operands without the axes that nothing else has."""
        made = []
        for field, summed in zip(fields, _summed(equation, fields), strict=True):
            x = self.visit_expr(field)
            made.append(self.builder_.emit(relax.op.sum(x, summed), f"{name}_sum") if summed else x)
        return made

    def _laid_out(self, x: relax.Expr, steps: Sequence[Step], name: str) -> relax.Expr:
        """Return an operand with other axes; a constant at once."""
        if steps and isinstance(x, ir.Constant) and str(x.ty.dtype) in _WIDE:
            array = x.value.numpy()
            for kind, numbers in steps:
                array = array.reshape(numbers) if kind == "reshape" else array.transpose(numbers)
            return relax.const(np.ascontiguousarray(array))
        for kind, numbers in steps:
            x = self.builder_.emit(getattr(relax.op, kind)(x, numbers), f"{name}_operand")
        return x


def _refuse(call: relax.Call, fields: Sequence[relax.Expr]) -> str | None:
    if len(fields) != 2:
        return f"{len(fields)} operands are known, not 2"
    dtypes, shapes = {str(each.ty.dtype) for each in fields}, list(map(static_shape, fields))
    if len(dtypes) > 1 or not dtypes.issubset(_WIDE + _HALF):
        return f"the operands are of {' and '.join(sorted(dtypes))}"
    if None in shapes or not all(map(math.prod, shapes)):
        return "an operand's shape is unknown, or it has no elements"
    equation = _equation(call, fields)
    if equation is None or any(len(set(each)) < len(each) for each in equation.operands):
        return f"the axes of {call.attrs.subscripts} repeat, or have no plain meaning"
    if not equation.result:
        return "its result is a single sum"
    left, right = equation.operands
    depth = [label for label in left if label in right and label not in equation.result]
    sizes = [[s[e.index(k)] for k in depth] for s, e in zip(shapes, (left, right), strict=True)]
    if sizes[0] != sizes[1] or math.prod(sizes[0]) == 1:
        return f"the axes that both lose have extents {sizes[0]} and {sizes[1]}"
    if dtypes.issubset(_HALF) and any(_summed(equation, fields)):
        return "halves would be rounded between two sums"
    return None


def _equation(call: relax.Call, fields: Sequence[relax.Expr]) -> Equation | None:
    return parse(str(call.attrs.subscripts), [len(static_shape(each)) for each in fields])


def _summed(equation: Equation, fields: Sequence[relax.Expr]) -> list[list[int]]:
    """Return the axes of several elements that nothing but their operand has."""
    found = []
    for field, labels, other in _sides(equation, fields):
        needed = other + equation.result
        sizes = enumerate(zip(labels, static_shape(field), strict=True))
        found.append([axis for axis, (label, size) in sizes if label not in needed and size > 1])
    return found


def _contraction(
    equation: Equation, fields: Sequence[relax.Expr], weights: Sequence[bool]
) -> Contraction:
    """Return what is left behind the sums, without axes of one element that are broadcast."""
    extents: dict[str, int] = {}
    for field, labels, _ in _sides(equation, fields):
        for label, size in zip(labels, static_shape(field), strict=True):
            extents[label] = max(size, extents.get(label, 1))
    operands = []
    for (field, labels, other), is_weight, summed in zip(
        _sides(equation, fields), weights, _summed(equation, fields), strict=True
    ):
        sizes, needed = zip(labels, static_shape(field), strict=True), other + equation.result
        kept = tuple(a for a, size in sizes if a in needed and size == extents[a])
        operands.append(Operand(kept, is_weight and not summed))
    return Contraction(tuple(operands), equation.result, extents)


def _sides(
    equation: Equation, fields: Sequence[relax.Expr]
) -> list[tuple[relax.Expr, Labels, Labels]]:
    """Return each operand with its labels and those of the other."""
    return list(zip(fields, equation.operands, equation.operands[::-1], strict=True))


def _steps(einsum: Contraction, given: Sequence[int], have: Labels, groups: Groups) -> list[Step]:
    """Return the operators that make axes `groups` of `have`, in a tensor of the shape `given`."""
    steps: list[Step] = []
    if einsum.moves(have, groups):
        if tuple(given) != (each := einsum.shape(apart(have))):
            steps.append(("reshape", each))
        want = flat(groups)
        steps.append(("permute_dims", [have.index(label) for label in want]))
        given = einsum.shape(apart(want))
    if tuple(given) != (made := einsum.shape(groups)):
        steps.append(("reshape", made))
    return steps


def _calls(value: relax.Expr, *names: str) -> bool:
    return isinstance(value, relax.Call) and getattr(value.op, "name", "") in names
