"""Scalar expressions of a stage: immutable trees that are cheap to compare, map and re-emit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

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
    """Base of the four kinds of expression node."""

    __slots__ = ("_hash", "dtype")
    dtype: str

    def children(self) -> tuple[Expr, ...]:
        return ()

    def __hash__(self) -> int:
        return self._hash


class Const(Expr):
    """A literal."""

    __slots__ = ("value",)

    def __init__(self, value: int | float | bool, dtype: str) -> None:
        self.value, self.dtype = value, dtype
        self._hash = hash(("const", repr(value), dtype))

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
        self._hash = hash(("axis", id(axis)))

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
        self._hash = hash(("load", id(tensor), index))

    def children(self) -> tuple[Expr, ...]:
        return self.index

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

    def children(self) -> tuple[Expr, ...]:
        return self.args

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
    memo: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        key = id(node)
        if key in memo:
            return memo[key]
        out = rule(node)
        if out is None:
            kids = node.children()
            new = tuple(visit(k) for k in kids)
            changed = any(a is not b for a, b in zip(kids, new, strict=True))
            out = rebuild(node, new) if changed else node
        memo[key] = out
        return out

    return visit(expr)


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
        stack.extend(node.children())


def tree_size(expr: Expr, tensor: Tensor | None = None, size: int = 1) -> int:
    """Return how many nodes `expr` has once it is written out, shared ones at each place.

    A load of `tensor` counts as `size` nodes.
    """
    sizes: dict[int, int] = {}
    stack = [expr]
    while stack:
        node = stack[-1]
        waiting = [kid for kid in node.children() if id(kid) not in sizes]
        if waiting:
            stack.extend(waiting)
        else:
            stack.pop()
            own = size if isinstance(node, Load) and node.tensor is tensor else 1
            sizes[id(node)] = own + sum(sizes[id(kid)] for kid in node.children())
    return sizes[id(expr)]


def loads(expr: Expr) -> list[Load]:
    """Return the distinct loads in `expr`, those inside indices included."""
    return list(dict.fromkeys(n for n in walk(expr) if isinstance(n, Load)))


@dataclass(frozen=True)
class Term:
    """`scale * ((base // low) % extent)`, where base is an axis or an opaque expression."""

    scale: int
    base: Axis | Expr
    low: int
    extent: int


@dataclass(frozen=True)
class Linear:
    """An index as a constant plus mixed-radix terms, outer first."""

    const: int = 0
    terms: tuple[Term, ...] = field(default=())
