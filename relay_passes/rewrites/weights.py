"""The weights of graphs: constants, and the parameters behind the first `num_input`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
from tvm import ir, relax, tirx

from tir_schedules.kernel_ir.expr import dtype_bytes

from .convolution import SPATIAL, TRANSPOSED

_DTYPES = ("float32", "float64")
# A number up to here times another is far from infinity, whatever sums they are added up in.
MODERATE = 2.0**40


class Weights:
    """What functions read of weights, each known by its `key_of`; `total_bytes` is of all.

    `own` are those that are only ever the right side of a product: a new layout replaces them.
    `arrays` are the numbers of parameters, as far as these are known.
    """

    def __init__(
        self, graphs: list[relax.Function], arrays: Mapping[relax.Var, np.ndarray]
    ) -> None:
        self._arrays = arrays
        self._moderate: dict[object, bool] = {}
        self._products: Counter[object] = Counter()
        self._uses: Counter[object] = Counter()
        self._bytes: dict[object, int] = {}
        self._held: set[relax.Var] = set()
        for func in graphs:
            inputs = func.attrs.get("num_input") if func.attrs else None
            if inputs is not None:
                params = set(func.params[int(inputs) :])
                self._bytes |= {p: _bytes_of(p) for p in params}
                self._held |= params | _transposed(func, params)
            relax.analysis.post_order_visit(func, self._visit)
        self.own = {k for k, count in self._products.items() if self._uses[k] == count}
        self.total_bytes = sum(self._bytes.values())

    def bytes_of(self, key: object) -> int:
        return self._bytes[key]

    def packs(self, x: relax.Expr, weight: relax.Expr) -> bool:
        """Return whether `weight` is one, of its own and of a dtype that packs."""
        return key_of(weight) in self.own and pack_alike(x, weight)

    def is_moderate(self, weight: relax.Expr) -> bool:
        """Return whether no number of a weight is infinite, NaN or huge: False if none is known."""
        key = key_of(weight)
        if key not in self._moderate:
            known = isinstance(weight, ir.Constant)
            array = weight.value.numpy() if known else self._arrays.get(weight)
            most = np.float64(MODERATE)  # float16 does not have it
            self._moderate[key] = array is not None and bool(np.all(np.abs(array) <= most))
        return self._moderate[key]

    def holds(self, right: relax.Expr) -> bool:
        """Return whether `right` is a parameter that is a weight, or the transpose of one."""
        return isinstance(right, relax.Var) and right in self._held

    def _visit(self, node: relax.Expr) -> None:
        if isinstance(node, relax.Tuple):
            arguments, right = list(node.fields), None
        elif isinstance(node, relax.Call):
            arguments = [a for a in node.args if not isinstance(a, relax.Tuple)]
            right = node.args[1] if is_product(node) else None
        else:
            return
        for argument in arguments:
            if not isinstance(argument.ty, relax.TensorType):
                continue
            if isinstance(argument, ir.Constant):
                self._bytes[key_of(argument)] = _bytes_of(argument)
            if isinstance(argument, ir.Constant) or argument in self._bytes:
                self._uses[key_of(argument)] += 1
        if right is not None:
            self._products[key_of(right)] += 1


def _transposed(func: relax.Function, params: set[relax.Var]) -> set[relax.Var]:
    found = set()
    for block in func.body.blocks:
        for binding in block.bindings:
            value = binding.value
            op = value.op if isinstance(value, relax.Call) else None
            if getattr(op, "name", "") == "relax.permute_dims" and value.args[0] in params:
                found.add(binding.var)
    return found


def pack_alike(x: relax.Expr, right: relax.Expr) -> bool:
    """Return whether the operands have one dtype, one that packs, and elements."""
    dtype = str(right.ty.dtype)
    if dtype not in _DTYPES or str(x.ty.dtype) != dtype:
        return False
    return all(math.prod(static_shape(t) or (0,)) for t in (x, right))


def is_product(call: relax.Call) -> bool:
    name = call.op.name if isinstance(call.op, ir.Op) else ""
    return name == "relax.matmul" or name in SPATIAL or name in TRANSPOSED


def key_of(weight: relax.Expr) -> object:
    if isinstance(weight, ir.Constant):
        return weight.value.data_ptr()
    return weight


def shape_of(value: relax.Expr) -> list[int]:
    return [int(extent) for extent in value.ty.shape.values]


def static_shape(value: relax.Expr) -> tuple[int, ...] | None:
    """Return the extents of a tensor whose shape is known."""
    shape = value.ty.shape if isinstance(value.ty, relax.TensorType) else None
    if not isinstance(shape, relax.ShapeExpr):
        return None
    if not all(isinstance(extent, tirx.IntImm) for extent in shape.values):
        return None
    return tuple(shape_of(value))


def _bytes_of(weight: relax.Expr) -> int:
    shape = static_shape(weight)
    return 0 if shape is None else math.prod(shape) * dtype_bytes(str(weight.ty.dtype))
