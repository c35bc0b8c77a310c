"""Put a kernel into atoms: cut its axes, identify the pieces, rewrite every access."""

from __future__ import annotations

from ..kernel_ir.expr import Axis, AxisRef, Expr, Linear, Load, Tensor, Term, walk
from ..kernel_ir.index import normalize, to_expr
from ..kernel_ir.stage import Kernel, Stage, flat_index
from .axis_classes import Classes
from .axis_cuts import Cuts, cut_axes, segment_pairs
from .axis_links import Link, links_of, shared_inputs
from .iteration_space import Access, Atom, Edge, Node, Space


def atomize(kernel: Kernel) -> Space:
    """Return the kernel's stages and accesses in shared atoms."""
    made = {s.out: s for s in kernel.stages}
    links: dict[tuple[int, Load, int], list[Link]] = {}
    for position, stage in enumerate(kernel.stages):
        for load in stage.loads():
            producer = made.get(load.tensor)
            if producer is None:
                continue
            for dim in range(len(load.index)):
                found = links_of(producer, load, dim)
                if found is not None:
                    links[position, load, dim] = found
    cuts = cut_axes(kernel, [x for group in links.values() for x in group])
    soft = [link for link in shared_inputs(kernel, made) if cuts.try_join(link)]
    return _build(kernel, made, links, soft, cuts)


def _build(
    kernel: Kernel, made: dict[Tensor, Stage], links: dict, soft: list[Link], cuts: Cuts
) -> Space:
    classes = Classes(kernel, cuts)
    tight: set[tuple[int, Load, int]] = set()
    for key, group in links.items():
        pairs = segment_pairs(group, cuts)
        if pairs is not None and classes.union(pairs):
            tight.add(key)
    for link in soft:
        pairs = segment_pairs([link], cuts)
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
    return to_expr(Linear(0, (term._replace(scale=1),)))


def _expr_atoms(expr: Expr, digits: dict) -> set[Atom]:
    found: set[Atom] = set()
    for node in walk(expr):
        if isinstance(node, AxisRef):
            found.update(a for a, _ in digits.get(node.axis, ()))
    return found
