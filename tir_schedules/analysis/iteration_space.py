"""Iteration atoms: the finest pieces of axes that the stages of a kernel share.

A reshape (N, C) -> (N, G, C/G) between two stages makes C of the one the pair (G, C/G) of the
other. Cutting every axis where some access cuts it, and identifying the pieces that run together,
gives one set of coordinates for the whole kernel: an axis is a mixed-radix number of atoms, and
every affine access is a dot product of atoms and strides.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from ..kernel_ir.expr import Axis, Expr, Linear, Load, Tensor, Term
from ..kernel_ir.index import normalize
from ..kernel_ir.stage import Kernel, Stage, flat_index


@dataclass(eq=False)
class Atom:
    """A shared piece of iteration space; compared by identity. `extent` in elements."""

    name: str
    extent: int

    def __repr__(self) -> str:
        return f"{self.name}:{self.extent}"


@dataclass(frozen=True)
class Access:
    """A load or store as `const + sum(stride * atom) + sum(scale * opaque)` in elements.

    `opaque_atoms` are atoms that the opaque part depends on. `whole` are atoms of the *producer*
    that this read may touch at any position, so they can't be split among tiles.
    """

    tensor: Tensor
    index: tuple[Expr, ...]
    const: int
    strides: dict[Atom, int]
    opaque: tuple[tuple[int, Expr], ...] = ()
    opaque_atoms: frozenset[Atom] = frozenset()

    def stride(self, atom: Atom) -> int | None:
        """Return the stride along `atom`, or None if it is not constant."""
        return None if atom in self.opaque_atoms else self.strides.get(atom, 0)


@dataclass(eq=False)
class Node:
    """A stage in atom coordinates."""

    stage: Stage
    digits: dict[Axis, tuple[tuple[Atom, int], ...]]  # axis -> its atoms with their weights
    spatial: tuple[Atom, ...]
    reduced: tuple[Atom, ...]
    store: Access
    reads: dict[Load, Access] = field(default_factory=dict)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return self.spatial + self.reduced

    def stays_inside(self, access: Access) -> bool:
        """Return whether an access of this node is an element of its tensor at all positions."""
        if access.opaque:
            return False
        ends = [(a.extent - 1) * access.strides.get(a, 0) for a in self.atoms]
        low, high = (access.const + sum(f(0, end) for end in ends) for f in (min, max))
        return low >= 0 and high < access.tensor.elements

    def __repr__(self) -> str:
        return f"{self.stage.out.name}: {list(self.spatial)} / {list(self.reduced)}"


@dataclass(frozen=True)
class Edge:
    """`consumer` reads what `producer` makes, whose `unaligned` atoms it reads at any position."""

    producer: Node
    consumer: Node
    unaligned: frozenset[Atom]


@dataclass(frozen=True)
class Space:
    """A kernel in atom coordinates: nodes in program order and the edges between them."""

    kernel: Kernel
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @functools.cached_property
    def incoming(self) -> dict[Node, list[Edge]]:
        """The edges to each consumer."""
        found: dict[Node, list[Edge]] = {}
        for edge in self.edges:
            found.setdefault(edge.consumer, []).append(edge)
        return found

    @functools.cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """All atoms, in the order in which nodes first have them."""
        return tuple(dict.fromkeys(a for n in self.nodes for a in n.atoms))

    def producer(self, tensor: Tensor) -> Node | None:
        return next((n for n in self.nodes if n.stage.out is tensor), None)


@dataclass(frozen=True)
class _Link:
    """`left[left_low : *extent]` runs together with `right[right_low : *extent]`."""

    left: Axis
    left_low: int
    right: Axis
    right_low: int
    extent: int


def atomize(kernel: Kernel) -> Space:
    """Return the kernel's stages and accesses in shared atoms."""
    made = {s.out: s for s in kernel.stages}
    links: dict[tuple[int, Load, int], list[_Link]] = {}
    for position, stage in enumerate(kernel.stages):
        for load in stage.loads():
            producer = made.get(load.tensor)
            if producer is None:
                continue
            for dim in range(len(load.index)):
                found = _links(producer, load, dim)
                if found is not None:
                    links[position, load, dim] = found
    cuts = _cuts(kernel, [x for group in links.values() for x in group])
    soft = [link for link in _shared_inputs(kernel, made) if cuts.try_join(link)]
    return _build(kernel, made, links, soft, cuts)


def _shared_inputs(kernel: Kernel, made: dict[Tensor, Stage]) -> list[_Link]:
    """Return links between axes by which two stages walk one dimension of the same input."""
    first: dict[tuple[Tensor, int], Axis] = {}
    out: list[_Link] = []
    for stage in kernel.stages:
        for load in stage.loads():
            if load.tensor in made:
                continue
            for dim, expr in enumerate(load.index):
                index = normalize(expr)
                if index.const or len(index.terms) != 1:
                    continue
                term = index.terms[0]
                if term != Term(1, term.base, 1, load.tensor.shape[dim]):
                    continue
                if not isinstance(term.base, Axis) or term.base.extent != term.extent:
                    continue
                other = first.setdefault((load.tensor, dim), term.base)
                if other is not term.base:
                    out.append(_Link(other, 1, term.base, 1, term.extent))
    return out


def _links(producer: Stage, load: Load, dim: int) -> list[_Link] | None:
    """Return how dimension `dim` of the producer runs with the reader's axes, None if loosely."""
    home = normalize(producer.out_index[dim])
    extent = producer.out.shape[dim]
    index = normalize(load.index[dim])
    if not home.terms and extent == 1:
        return []
    if len(home.terms) != 1 or home.const or not isinstance(home.terms[0].base, Axis):
        return None
    axis, out, weight = home.terms[0].base, [], 1
    if home.terms[0] != Term(1, axis, 1, axis.extent) or axis.extent != extent:
        return None
    if index.const:
        return None
    for term in sorted(index.terms, key=lambda t: t.scale):
        if not isinstance(term.base, Axis) or not term.extent or term.scale != weight:
            return None
        out.append(_Link(axis, weight, term.base, term.low, term.extent))
        weight *= term.extent
    return out if weight == extent else None


class _Cuts:
    """Cut positions of every axis, kept a divisibility chain and equal across links."""

    def __init__(self, links: list[_Link]) -> None:
        self.cuts: dict[Axis, set[int]] = {}
        self._segments: dict[Axis, list[tuple[int, int]]] = {}
        self._links: dict[Axis, list[_Link]] = {}
        for link in links:
            self._links.setdefault(link.left, []).append(link)
            self._links.setdefault(link.right, []).append(link)

    def try_add(self, wanted: list[tuple[Axis, int]]) -> bool:
        """Add cuts and all that follow from them, or nothing if a chain would break."""
        added: list[tuple[Axis, int]] = []
        queue = list(wanted)
        while queue:
            axis, low = queue.pop()
            have = self.cuts.setdefault(axis, set())
            if low <= 1 or low >= axis.extent or low in have:
                continue
            chain = (*have, axis.extent)
            if any(low % c and c % low for c in chain) or axis.extent % low:
                for a, c in added:
                    self.cuts[a].discard(c)
                    self._segments.pop(a, None)
                return False
            have.add(low)
            self._segments.pop(axis, None)
            added.append((axis, low))
            for link in self._links.get(axis, ()):
                here, there = (link.left_low, link.right_low)
                other = link.right
                if axis is link.right:
                    here, there, other = there, here, link.left
                if here < low < here * link.extent and low % here == 0:
                    queue.append((other, there * (low // here)))
        return True

    def try_join(self, link: _Link) -> bool:
        """Register a whole-axis link and equalise the cuts of its ends, or leave both alone."""
        self._links.setdefault(link.left, []).append(link)
        self._links.setdefault(link.right, []).append(link)
        both = {*self.cuts.get(link.left, ()), *self.cuts.get(link.right, ())}
        if self.try_add([(axis, c) for axis in (link.left, link.right) for c in both]):
            return True
        self._links[link.left].remove(link)
        self._links[link.right].remove(link)
        return False

    def segments(self, axis: Axis) -> list[tuple[int, int]]:
        """Return the (low, extent) pieces of an axis, outermost first; none for extent 1."""
        if axis.extent == 1:
            return []
        if axis not in self._segments:
            lows = sorted({1, *self.cuts.get(axis, ())})
            ends = [*lows[1:], axis.extent]
            found = [(low, end // low) for low, end in zip(lows, ends, strict=True)]
            self._segments[axis] = found[::-1]
        return self._segments[axis]


def _cuts(kernel: Kernel, links: list[_Link]) -> _Cuts:
    cuts = _Cuts(links)
    for link in links:
        ends = [(link.left, link.left_low), (link.left, link.left_low * link.extent)]
        ends += [(link.right, link.right_low), (link.right, link.right_low * link.extent)]
        cuts.try_add(ends)
    for stage in kernel.stages:
        for load in stage.loads():
            for term in flat_index(load.tensor, load.index).terms:
                if isinstance(term.base, Axis) and term.extent:
                    cuts.try_add([(term.base, term.low), (term.base, term.low * term.extent)])
    return cuts


class _Classes:
    """Union-find over (axis, low) segments that never lets one stage hold a class twice."""

    def __init__(self, kernel: Kernel, cuts: _Cuts) -> None:
        self._parent: dict[tuple[Axis, int], tuple[Axis, int]] = {}
        self._stages: dict[tuple[Axis, int], set[int]] = {}
        for number, stage in enumerate(kernel.stages):
            for axis in stage.axes:
                for low, _ in cuts.segments(axis):
                    self._parent[axis, low] = (axis, low)
                    self._stages[axis, low] = {number}

    def find(self, key: tuple[Axis, int]) -> tuple[Axis, int]:
        while self._parent[key] != key:
            key = self._parent[key]
        return key

    def union(self, pairs: list[tuple[tuple[Axis, int], tuple[Axis, int]]]) -> bool:
        """Identify all pairs, or none if two pieces of one stage would become one."""
        for left, right in pairs:
            a, b = self.find(left), self.find(right)
            if a != b and self._stages[a] & self._stages[b]:
                return False
        for left, right in pairs:
            a, b = self.find(left), self.find(right)
            if a != b:
                self._parent[b] = a
                self._stages[a] = self._stages[a] | self._stages[b]
        return True


def _build(
    kernel: Kernel, made: dict[Tensor, Stage], links: dict, soft: list[_Link], cuts: _Cuts
) -> Space:
    classes = _Classes(kernel, cuts)
    tight: set[tuple[int, Load, int]] = set()
    for key, group in links.items():
        pairs = _segment_pairs(group, cuts)
        if pairs is not None and classes.union(pairs):
            tight.add(key)
    for link in soft:
        pairs = _segment_pairs([link], cuts)
        if pairs is not None:
            classes.union(pairs)
    atoms: dict[tuple[Axis, int], Atom] = {}

    def atom(axis: Axis, low: int, extent: int) -> Atom:
        root = classes.find((axis, low))
        if root not in atoms:
            atoms[root] = Atom(f"{axis.name}{len(atoms)}", extent)
        return atoms[root]

    nodes = []
    for stage in kernel.stages:
        digits = {
            axis: tuple((atom(axis, low, ext), low) for low, ext in cuts.segments(axis))
            for axis in stage.axes
        }
        spatial = tuple(a for axis in stage.spatial for a, _ in digits[axis])
        reduced = tuple(a for axis in stage.reduced for a, _ in digits[axis])
        store = _access(stage.out, stage.out_index, digits)
        reads = {ld: _access(ld.tensor, ld.index, digits) for ld in stage.loads()}
        nodes.append(Node(stage, digits, spatial, reduced, store, reads))
    home = {n.stage.out: n for n in nodes}
    edges: dict[tuple[Node, Node], Edge] = {}
    for position, node in enumerate(nodes):
        for load in node.reads:
            producer = home.get(load.tensor)
            if producer is None:
                continue
            unaligned: set[Atom] = set()
            for dim, expr in enumerate(producer.stage.out_index):
                if (position, load, dim) not in tight:
                    for term in normalize(expr).terms:
                        if isinstance(term.base, Axis):
                            unaligned.update(a for a, _ in producer.digits[term.base])
            key = (producer, node)
            before = edges[key].unaligned if key in edges else frozenset()
            edges[key] = Edge(producer, node, before | unaligned)
    return Space(kernel, tuple(nodes), tuple(edges.values()))


def _segment_pairs(group: list[_Link], cuts: _Cuts) -> list | None:
    pairs = []
    for link in group:
        left = _inside(cuts.segments(link.left), link.left_low, link.extent)
        right = _inside(cuts.segments(link.right), link.right_low, link.extent)
        if left is None or right is None or len(left) != len(right):
            return None
        for (low_l, ext_l), (low_r, ext_r) in zip(left, right, strict=True):
            if ext_l != ext_r:
                return None
            pairs.append(((link.left, low_l), (link.right, low_r)))
    return pairs


def _inside(segments: list[tuple[int, int]], low: int, extent: int) -> list | None:
    """Return the segments that tile [low, low * extent), None if a boundary is missing."""
    if extent == 1:
        return []
    inner = [(lo, ext) for lo, ext in segments if low <= lo and lo * ext <= low * extent]
    covered = 1
    for _, ext in inner:
        covered *= ext
    return inner if covered == extent else None


def _access(tensor: Tensor, index: tuple[Expr, ...], digits: dict) -> Access:
    linear = flat_index(tensor, index)
    strides: dict[Atom, int] = {}
    opaque: list[tuple[int, Expr]] = []
    touched: set[Atom] = set()
    for term in linear.terms:
        pieces = _term_atoms(term, digits)
        if pieces is None:
            expr = _opaque_expr(term)
            opaque.append((term.scale, expr))
            touched |= _expr_atoms(expr, digits)
        else:
            for piece, stride in pieces:
                strides[piece] = strides.get(piece, 0) + stride
    return Access(tensor, index, linear.const, strides, tuple(opaque), frozenset(touched))


def _term_atoms(term: Term, digits: dict) -> list[tuple[Atom, int]] | None:
    if not isinstance(term.base, Axis) or not term.extent:
        return None
    inner = [
        (a, low) for a, low in digits[term.base]
        if term.low <= low and low * a.extent <= term.low * term.extent
    ]  # fmt: skip
    covered = 1
    for a, _ in inner:
        covered *= a.extent
    if covered != term.extent:
        return None
    return [(a, term.scale * (low // term.low)) for a, low in inner]


def _opaque_expr(term: Term) -> Expr:
    from ..kernel_ir.index import to_expr

    return to_expr(Linear(0, (term._replace(scale=1),)))


def _expr_atoms(expr: Expr, digits: dict) -> set[Atom]:
    from ..kernel_ir.expr import AxisRef, walk

    found: set[Atom] = set()
    for node in walk(expr):
        if isinstance(node, AxisRef):
            found.update(a for a, _ in digits.get(node.axis, ()))
    return found
