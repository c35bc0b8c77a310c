"""Scalar expressions of a stage: immutable trees that are cheap to compare, map and re-emit."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

# An Op that is its argument, and says that it is 0, below, or NaN.
NEVER_ABOVE_ZERO = "NeverAboveZero"


@dataclass(frozen=True, eq=False)
class Axis:
    """One iteration variable of a stage; compared by identity. `extent` in elements."""

    name: str
    extent: int
    is_reduce: bool = False

    def __repr__(self) -> str:
        return f"{self.name}:{self.extent}{'r' if self.is_reduce else ''}"


@dataclass(frozen=True, eq=False)
class Tensor:
    """A buffer that stages read and write; compared by identity."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        return self.elements * dtype_bytes(self.dtype)

    def strides(self) -> tuple[int, ...]:
        """Return row-major strides in elements."""
        out, step = [], 1
        for extent in reversed(self.shape):
            out.append(step)
            step *= extent
        return tuple(reversed(out))

    def __repr__(self) -> str:
        return f"{self.name}{list(self.shape)}"


class Expr:
    """Base of the four kinds of expression node.

    A node knows how many nodes it has once it is written out, whether one is a load, and keeps its
    normal form as an index when that is asked for: planning asks often, and a node never changes.
    Walks keep what they have seen by `id`: equal nodes that are not one are compared part by part.
    """

    __slots__ = ("_hash", "dtype", "kids", "linear", "loads_any", "size")
    dtype: str
    kids: tuple[Expr, ...]
    linear: Linear | None
    loads_any: bool
    size: int

    def children(self) -> tuple[Expr, ...]:
        return self.kids

    def _join(self, kids: tuple[Expr, ...], loads_any: bool = False) -> None:
        self.kids, self.linear = kids, None
        size = 1
        for kid in kids:
            size += kid.size
            loads_any = loads_any or kid.loads_any
        self.size, self.loads_any = size, loads_any

    def __hash__(self) -> int:
        return self._hash


class Const(Expr):
    """A literal."""

    __slots__ = ("value",)

    def __init__(self, value: int | float | bool, dtype: str) -> None:
        self.value, self.dtype = value, dtype
        self._hash = hash(("const", repr(value), dtype))
        self._join(())

    def __eq__(self, other: object) -> bool:
        # repr keeps NaN equal to itself and 0.0 apart from -0.0.
        return (
            isinstance(other, Const)
            and repr(self.value) == repr(other.value)
            and self.dtype == other.dtype
        )

    __hash__ = Expr.__hash__

    def __repr__(self) -> str:
        return repr(self.value)


class AxisRef(Expr):
    """The value of an axis, an integer."""

    __slots__ = ("axis",)

    def __init__(self, axis: Axis, dtype: str = "int64") -> None:
        self.axis, self.dtype = axis, dtype
        self._hash = hash(("axis", axis))
        self._join(())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AxisRef) and self.axis is other.axis

    __hash__ = Expr.__hash__

    def __repr__(self) -> str:
        return self.axis.name


class Load(Expr):
    """One element of a tensor; `index` has one integer expression a dimension."""

    __slots__ = ("index", "tensor")

    def __init__(self, tensor: Tensor, index: tuple[Expr, ...]) -> None:
        self.tensor, self.index, self.dtype = tensor, index, tensor.dtype
        self._hash = hash(("load", tensor, index))
        self._join(index, loads_any=True)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Load)
            and self._hash == other._hash
            and self.tensor is other.tensor
            and self.index == other.index
        )

    __hash__ = Expr.__hash__

    def __repr__(self) -> str:
        return f"{self.tensor.name}{list(self.index)}"


class Op(Expr):
    """An operation named as in TensorIR: `Add`, `Cast`, `Select`, or `call:tirx.exp`.

    `extra` keeps what the call carries besides arguments (an intrinsic's name).
    """

    __slots__ = ("args", "extra", "name")

    def __init__(
        self, name: str, args: tuple[Expr, ...], dtype: str, extra: tuple[object, ...] = ()
    ) -> None:
        self.name, self.args, self.dtype, self.extra = name, args, dtype, extra
        self._hash = hash((name, args, dtype, extra))
        self._join(args)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Op)
            and self._hash == other._hash
            and self.name == other.name
            and self.dtype == other.dtype
            and self.extra == other.extra
            and self.args == other.args
        )

    __hash__ = Expr.__hash__

    def __repr__(self) -> str:
        return f"{self.name.removeprefix('call:tirx.')}({', '.join(map(repr, self.args))})"


@functools.cache
def dtype_bytes(dtype: str) -> int:
    """Return the storage bytes of one element; bool takes one."""
    digits = "".join(c for c in dtype if c.isdigit())
    if dtype.startswith("bool") or not digits:
        return 1
    if dtype.startswith("float8"):
        return 1
    return max(1, int(digits) // 8)


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def rebuild(expr: Expr, children: tuple[Expr, ...]) -> Expr:
    """Return `expr` with other children."""
    if isinstance(expr, Op):
        return Op(expr.name, children, expr.dtype, expr.extra)
    if isinstance(expr, Load):
        return Load(expr.tensor, children)
    return expr


def transform(expr: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrite top-down: where `rule` returns an expression it stands, elsewhere descend.

    Shared sub-expressions are visited once, so a DAG stays a DAG.
    """
    return _Transform(rule, only_loads=False).visit(expr)


def transform_loads(expr: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Do what `transform` does for a rule that answers for loads alone: others are not asked."""
    return _Transform(rule, only_loads=True).visit(expr)


class _Transform:
    def __init__(self, rule: Callable[[Expr], Expr | None], only_loads: bool) -> None:
        self._rule, self._only_loads = rule, only_loads
        self._memo: dict[int, Expr] = {}

    def visit(self, node: Expr) -> Expr:
        if self._only_loads and not node.loads_any:
            return node
        out = self._memo.get(id(node))
        if out is not None:
            return out
        if not self._only_loads or isinstance(node, Load):
            out = self._rule(node)
        if out is None:
            out = node
            if node.kids:
                kids = tuple([self.visit(kid) for kid in node.kids])
                if any(map(operator.is_not, kids, node.kids)):
                    out = rebuild(node, kids)
        self._memo[id(node)] = out
        return out


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every distinct node object once, parents before children."""
    seen: set[int] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack.extend(node.kids)


def tree_size(expr: Expr, tensor: Tensor, size: int) -> int:
    """Return how many nodes `expr` has once it is written out, shared ones at each place.

    A load of `tensor` counts as `size` nodes.
    """
    sizes: dict[int, int] = {}

    def visit(node: Expr) -> int:
        if not node.loads_any:
            return node.size
        known = sizes.get(id(node))
        if known is None:
            own = size if isinstance(node, Load) and node.tensor is tensor else 1
            known = sizes[id(node)] = own + sum([visit(kid) for kid in node.kids])
        return known

    return visit(expr)


def loads(expr: Expr) -> list[Load]:
    """Return the distinct loads in `expr`, those inside indices included."""
    seen: set[int] = set()
    found: dict[Load, None] = {}
    stack = [expr]
    while stack:
        node = stack.pop()
        if not node.loads_any or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Load):
            found.setdefault(node)
        stack.extend(node.kids)
    return list(found)


class Term(NamedTuple):
    """`scale * ((base // low) % extent)`, where base is an axis or an opaque expression."""

    scale: int
    base: Axis | Expr
    low: int
    extent: int


class Linear(NamedTuple):
    """An index as a constant plus mixed-radix terms, outer first."""

    const: int = 0
    terms: tuple[Term, ...] = ()
