"""Divide what a product makes of a softmax's weights, not the weights: there are more of these.

rewrite: sum_k (e[i, k] / s[i]) * v[k, j] -> (sum_k e[i, k] * v[k, j]) * r[i]
         # s[i] = sum e[i, k], r[i] = 1 / s[i]

A pass over the weights and their buffer go, and the product's registers are divided: multiplied by
a reciprocal of each row, which a division takes several times as long as (`cpu.facts.division`).
Attention in blocks does the same (FlashAttention, arXiv 2205.14135, section 3.1). The largest e of
a row is 1, so that s is between 1 and the terms of the row. A term is no larger than the value in
it, the sum up to s times as large as the result: values of over 3e38 by the terms of a row may
overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..analysis.kernel_facts import is_large_contraction
from ..kernel_ir.expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor, transform, walk
from ..kernel_ir.stage import Kernel, Stage, substitute_axes
from .inline import inline_into, is_identity
from .softmax import softmax_of

_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class _Quotients:
    """Weights that a product alone reads: `power` of one point and `total` of its row there."""

    weights: Stage
    product: Stage
    load: Load
    power: Load
    total: Load


def divide_late(kernel: Kernel) -> Kernel:
    """Return the kernel with the weights of products divided behind these, if they are softmaxes.

    Only float32 and float64 that the weights have more elements of than the product.
    """
    for stage in kernel.stages:
        found = _quotients(stage, kernel)
        if found is not None:
            return divide_late(_rewritten(kernel, found))
    return kernel


def _quotients(weights: Stage, kernel: Kernel) -> _Quotients | None:
    if weights.out.dtype not in _DTYPES or not is_identity(weights):
        return None
    readers = [s for s in kernel.stages if s.reads(weights.out)]
    if softmax_of(weights, kernel) is None or len(readers) != 1:
        return None
    (product,) = readers
    if any(t is weights.out for t in kernel.outputs) or not is_large_contraction(product):
        return None
    load = next(ld for ld in product.loads() if ld.tensor is weights.out)
    factors = product.value.args if isinstance(product.value, Op) else ()
    if sum(load in set(walk(factor)) for factor in factors) != 1 or load not in factors:
        return None
    if not is_identity(product) or product.out.elements > weights.out.elements:
        return None
    at = {
        place.axis: index
        for place, index in zip(weights.out_index, load.index, strict=True)
        if isinstance(place, AxisRef)
    }
    power, total = (
        Load(part.tensor, tuple(substitute_axes(i, at) for i in part.index))
        for part in weights.value.args
    )
    summed = set(product.reduced)
    if any(isinstance(e, AxisRef) and e.axis in summed for i in total.index for e in walk(i)):
        return None
    return _Quotients(weights, product, load, power, total)


def _rewritten(kernel: Kernel, found: _Quotients) -> Kernel:
    product = found.product
    undivided = Tensor(f"{product.out.name}_undivided", product.out.shape, product.out.dtype)

    def rule(node: Expr) -> Expr | None:
        return found.power if node == found.load else None

    value = transform(product.value, rule)
    first = replace(product, out=undivided, value=value)
    inverse = _inverse(found.total.tensor)
    divided = _divided(product, undivided, Load(inverse.out, found.total.index))
    stages = [s for s in kernel.stages if s is not found.weights]
    at = stages.index(product)
    stages[at : at + 1] = [inverse, first, divided]
    readers = [s for s in stages if s.reads(product.out)]
    if not any(t is product.out for t in kernel.outputs) and len(readers) == 1:
        (reader,) = readers
        if reader.reduction is None:
            stages[stages.index(reader)] = inline_into(reader, divided)
            stages.remove(divided)
    return Kernel(kernel.name, kernel.params, kernel.outputs, tuple(stages))


def _inverse(total: Tensor) -> Stage:
    """Return the stage that makes the reciprocals of the rows' sums."""
    axes = tuple(Axis(f"r{number}", extent) for number, extent in enumerate(total.shape))
    place = tuple(map(AxisRef, axes))
    one = Const(1.0, total.dtype)
    value = Op("Div", (one, Load(total, place)), total.dtype)
    out = Tensor(f"{total.name}_inverse", total.shape, total.dtype)
    return Stage(out.name, out, axes, place, value)


def _divided(product: Stage, undivided: Tensor, inverse: Load) -> Stage:
    """Return the stage that multiplies a product's sums by reciprocals, over axes of its own."""
    mine = {a: Axis(a.name, a.extent) for a in product.spatial}
    values = {axis: AxisRef(own) for axis, own in mine.items()}

    def moved(index: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(substitute_axes(i, values) for i in index)

    place = moved(product.out_index)
    factors = (Load(undivided, place), Load(inverse.tensor, moved(inverse.index)))
    value = Op("Mul", factors, product.out.dtype)
    return Stage(f"{product.name}_divided", product.out, tuple(mine.values()), place, value)
