"""A kernel as a list of stages: what each sblock of a PrimFunc computes, over which axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .cost import EXPENSIVE, FREE, value_ops
from .expr import (
    Axis,
    AxisRef,
    Expr,
    Linear,
    Load,
    Op,
    Tensor,
    loads,
    transform,
    transform_loads,
)
from .index import normalize


@dataclass(frozen=True)
class Reduction:
    """How a reduce stage combines: `sum`, `prod`, `max`, `min`, `and`, `or`, from `identity`.

    A max keeps a NaN unless it may drop it.
    """

    kind: str
    identity: int | float | bool
    drops_nan: bool = False

    def start(self, dtype: str) -> int | float | bool:
        """Return what changes no result: -inf for a float max, where TVM starts from the lowest."""
        if self.kind in ("max", "min") and dtype.startswith(("float", "bfloat")):
            return -math.inf if self.kind == "max" else math.inf
        return self.identity


@dataclass(frozen=True, eq=False)
class Stage:
    """`out[out_index] (combine)= value` over `axes`; `out_index` has an expression a dimension.

    The axes of a stage are its own: two stages never share an `Axis` object.
    """

    name: str
    out: Tensor
    axes: tuple[Axis, ...]
    out_index: tuple[Expr, ...]
    value: Expr
    reduction: Reduction | None = None

    @property
    def spatial(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes if not a.is_reduce)

    @property
    def reduced(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes if a.is_reduce)

    @functools.cached_property
    def domain(self) -> int:
        """Return the number of points the stage visits."""
        count = 1
        for axis in self.axes:
            count *= axis.extent
        return count

    def loads(self) -> list[Load]:
        return self._loads

    @functools.cached_property
    def operations(self) -> tuple[Op, ...]:
        """The distinct operations on values that one point takes."""
        return tuple(value_ops(self.value))

    @functools.cached_property
    def light(self) -> int:
        """How many cheap vector instructions a point takes, casts left out."""
        return sum(op.name not in EXPENSIVE and op.name not in FREE for op in self.operations)

    @functools.cached_property
    def expensive(self) -> int:
        """How many transcendental calls a point makes (FusionStitching's expensive class)."""
        return sum(op.name in EXPENSIVE for op in self.operations)

    def reads(self, tensor: Tensor) -> bool:
        return tensor in self._tensors

    @functools.cached_property
    def _loads(self) -> list[Load]:
        return loads(self.value)

    @functools.cached_property
    def _tensors(self) -> frozenset[Tensor]:
        return frozenset(load.tensor for load in self._loads)

    def __repr__(self) -> str:
        red = f" {self.reduction.kind}" if self.reduction else ""
        return f"{self.out}{list(self.out_index)} ={red} {self.value} over {list(self.axes)}"


@dataclass(frozen=True)
class Kernel:
    """The stages of one PrimFunc in program order, with its parameters in call order."""

    name: str
    params: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    stages: tuple[Stage, ...]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        written = set(self.outputs)
        return tuple(p for p in self.params if p not in written)

    @property
    def touched(self) -> tuple[Tensor, ...]:
        """The parameters that stages read or write: of two ways a kernel has, one may not."""
        found = {t for s in self.stages for t in (s.out, *(ld.tensor for ld in s.loads()))}
        return tuple(p for p in self.params if p in found)

    def __repr__(self) -> str:
        return "\n".join([f"{self.name}{list(self.params)}", *(f"  {s!r}" for s in self.stages)])


@dataclass(frozen=True)
class Refusal:
    """Why a PrimFunc has no stages that the templates can read."""

    reason: str
    where: str = field(default="")

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.where else self.reason


def substitute_axes(expr: Expr, values: Mapping[Axis, Expr]) -> Expr:
    """Replace axes with expressions of the dtype that they are read in."""

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, AxisRef):
            return None
        value = values.get(node.axis, node)
        return value if value.dtype == node.dtype else Op("Cast", (value,), node.dtype)

    return transform(expr, rule)


def drop_dead(stages: list[Stage], outputs: tuple[Tensor, ...]) -> list[Stage]:
    needed = set(outputs)
    kept: list[Stage] = []
    for stage in reversed(stages):
        if stage.out in needed:
            kept.append(stage)
            needed.update(ld.tensor for ld in stage.loads())
    return kept[::-1]


def fresh_axes(stage: Stage) -> Stage:
    """Return the same stage over axes of its own, so that a kernel may hold it twice."""
    mine = {a: Axis(a.name, a.extent, a.is_reduce) for a in stage.axes}
    values = {old: AxisRef(own) for old, own in mine.items()}
    return Stage(
        stage.name,
        stage.out,
        tuple(mine.values()),
        tuple(substitute_axes(i, values) for i in stage.out_index),
        substitute_axes(stage.value, values),
        stage.reduction,
    )


def rebind(stage: Stage, tensors: Mapping[Tensor, Tensor]) -> Stage:
    """Return the stage with tensors replaced; axes are kept."""

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.tensor in tensors:
            index = tuple(transform_loads(i, rule) for i in node.index)
            return Load(tensors[node.tensor], index)
        return None

    return Stage(
        stage.name,
        tensors.get(stage.out, stage.out),
        stage.axes,
        tuple(transform_loads(i, rule) for i in stage.out_index),
        transform_loads(stage.value, rule),
        stage.reduction,
    )


@functools.lru_cache(maxsize=1 << 14)
def flat_index(tensor: Tensor, index: tuple[Expr, ...]) -> Linear:
    """Return the row-major offset of `tensor[index]` in elements."""
    from .index import add, scaled

    total = Linear()
    for expr, stride in zip(index, tensor.strides(), strict=True):
        total = add(total, scaled(normalize(expr), stride))
    return total
