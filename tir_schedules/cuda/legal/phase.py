"""One launch of decisions: the objects that their numbers name, laid out, and checked.

Nothing is chosen here, and nothing refused for being slow.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from ...analysis.iteration_space import Atom, Edge, Node, Space
from ...device.cuda import MOST_THREADS, WARP, CudaDevice
from ..facts.accesses import always_read, is_affine
from ..facts.parts import space_of
from ..facts.tiles import is_tiled
from ..plan.axes import Axis, Spread
from ..plan.decisions import (
    NestDecisions,
    PhaseDecisions,
    SpreadDecisions,
    StagedDecisions,
)
from ..plan.kernel_plan import Phase
from ..plan.nest import HeldKey, Nest, Staged, held_key, register_words, values_of
from ..plan.shared import block_bytes, fits_static, shared_dims
from ..plan.tile import Tile
from .fragments import refuse_fragments
from .illegal import Illegal
from .steps import refuse_ahead, refuse_steps

_MOST_TERMS = 1024  # of a running float sum

T = TypeVar("T")


def build_phase(space: Space, decided: PhaseDecisions, device: CudaDevice) -> Phase | str:
    """Return a launch of a kernel, or the first reason why there is none of these decisions."""
    try:
        return phase_of(space, decided, device)
    except Illegal as reason:
        return str(reason)


def phase_of(space: Space, decided: PhaseDecisions, device: CudaDevice) -> Phase:
    """Return a launch of a kernel. Raises: Illegal."""
    axes = tuple(
        Axis(
            tuple(tuple(picked(space.atoms, n, "axis") for n in v) for v in each.views),
            each.block,
            each.serial,
        )
        for each in decided.axes
    )
    _refuse_axes(axes)
    ways = [decided.spreads, *(n.own for n in decided.nests if n.own is not None)]
    products = [math.prod(s.threads for s in way) for way in ways]
    threads = max(WARP, *products)  # shuffles name all lanes of a warp
    if threads > MOST_THREADS:
        raise Illegal(f"a block of {threads} threads")
    common = _spreads(axes, decided.spreads)
    nests = tuple(_nest(space, axes, common, each) for each in decided.nests)
    own = space_of(space, [node for nest in nests for node in nest.nodes])
    for nest in nests:
        _refuse_nest(nest)
    draft = Phase(own, axes, nests, threads)
    refuse_order(own, [node for nest in nests for node in nest.nodes])
    refuse_steps(draft)
    for nest in nests:
        if nest.warps is not None:
            refuse_fragments(nest, draft)
    kept = tuple(picked(space.nodes, number, "stage") for number in decided.shared)
    for node in own.nodes:
        if any(draft.axis_of(atom).blocks > 1 for atom in node.reduced):
            raise Illegal(f"blocks have parts of the sums of {node.stage.name}")
    for edge in own.edges:
        _refuse_cut(edge, draft)
    registers, shared = _placed(own.edges, draft, kept)
    held = _held(draft, decided.holds)
    staged = tuple(
        _staged(own, picked(space.nodes, each.node, "stage"), axes, threads, each)
        for each in decided.staged
    )
    if decided.ahead:
        refuse_ahead(draft)
    phase = replace(
        draft,
        registers=registers,
        shared=shared,
        held=held,
        staged=staged,
        ahead=decided.ahead,
        unrolls=decided.unrolls,
        beside=decided.beside,
    )
    _refuse_long_sums(phase)
    _refuse_size(phase, device)
    return phase


def _refuse_axes(axes: Sequence[Axis]) -> None:
    """Check that an atom is in one axis, and that the views of each are as long."""
    atoms = [a for axis in axes for view in axis.views for a in view]
    if len(set(atoms)) != len(atoms) or not all(axis.views and all(axis.views) for axis in axes):
        raise Illegal("an atom is in one view of one axis")
    for axis in axes:
        if any(math.prod(a.extent for a in view) != axis.extent for view in axis.views):
            raise Illegal(f"{axis} has views of other lengths")
        if not 1 <= axis.block <= axis.extent:
            raise Illegal(f"blocks of {axis.block} of {axis.extent} positions")


def _nest(
    space: Space, axes: Sequence[Axis], common: tuple[Spread, ...], decided: NestDecisions
) -> Nest:
    nodes = tuple(picked(space.nodes, number, "stage") for number in decided.nodes)
    if not nodes:
        raise Illegal("a nest without stages")
    spreads = common if decided.own is None else _spreads(axes, decided.own)
    return Nest(nodes, spreads, decided.warps)


def _spreads(axes: Sequence[Axis], decided: Sequence[SpreadDecisions]) -> tuple[Spread, ...]:
    stride, spreads = 1, []
    for each in reversed(decided):
        if each.threads < 1 or each.threads & (each.threads - 1):
            raise Illegal(f"{each.threads} threads along an axis: a power of two")
        if each.width < 1 or each.width & (each.width - 1):
            raise Illegal(f"{each.width} positions of a thread side by side: a power of two")
        axis = picked(axes, each.axis, "axis")
        spreads.append(Spread(axis, each.threads, stride, each.width))
        stride *= each.threads
    return tuple(reversed(spreads))


def _staged(
    space: Space, node: Node, axes: Sequence[Axis], threads: int, decided: StagedDecisions
) -> Staged:
    load = picked(tuple(node.reads), decided.read, "read")
    access, spreads = node.reads[load], _spreads(axes, decided.spreads)
    if load.tensor not in space.kernel.inputs or not is_affine(access, node):
        raise Illegal(f"what {node.stage.name} reads of {load.tensor.name} is not staged")
    if load not in always_read(node):
        raise Illegal(f"{load.tensor.name} is not read at every point")
    moving = [a for a, s in access.strides.items() if s]
    wanted = {axis for axis in axes if axis.meets(moving)}
    if not spreads or {s.axis for s in spreads} != wanted or len(spreads) != len(wanted):
        raise Illegal("what is staged is spread along the axes that it has")
    if math.prod(s.threads for s in spreads) > threads:
        raise Illegal("more threads load than there are")
    _refuse_widths(spreads, moving)
    return Staged(node, load, spreads)


def _refuse_nest(nest: Nest) -> None:
    """Check the nodes of a nest, its spreads, and what it stores."""
    atoms = set(nest.nodes[0].atoms)
    if any(set(node.atoms) != atoms for node in nest.nodes):
        raise Illegal("the stages of a nest are over the same points")
    spread = [s.axis for s in nest.spreads]
    held = {a for axis in spread for view in axis.views for a in view}
    if len(set(spread)) != len(spread) or not atoms <= held:
        raise Illegal("each axis of a nest is spread once")
    for node in nest.nodes:
        for axis in (axis for axis in spread if axis.meets(node.atoms)):
            groups = [set(group) for group in (node.spatial, node.reduced)]
            if sum(bool(set(view) & atoms) for view in axis.views) > 1 or not any(
                set(axis.view(node.atoms)) <= group for group in groups
            ):
                raise Illegal(f"{node.stage.name} walks a part of {axis}")
    _refuse_widths(nest.spreads, atoms)


def _refuse_widths(spreads: Sequence[Spread], atoms: Collection[Atom]) -> None:
    wide = [s for s in spreads if s.width > 1]
    if len(wide) > 1:
        raise Illegal("a thread has positions side by side of one axis only")
    for s in wide:
        last = s.axis.view(atoms)[-1] if s.axis.meets(atoms) else s.axis.views[0][-1]
        if s.axis.block % s.width or last.extent % s.width:
            raise Illegal(f"{s.axis} is no whole number of {s.width}")


def refuse_order(space: Space, order: Sequence[Node]) -> None:
    """Check that each node is made behind what it reads. Raises: Illegal."""
    place = {node: at for at, node in enumerate(order)}
    for edge in space.edges:
        if place[edge.producer] > place[edge.consumer]:
            raise Illegal(f"{edge.consumer.stage.name} is before what it reads")


def _refuse_cut(edge: Edge, phase: Phase) -> None:
    """Check that a block has what it reads of what is made in it."""
    made = edge.producer
    for atom in edge.unaligned & set(made.atoms):
        if phase.axis_of(atom).blocks > 1:
            raise Illegal(f"{edge.consumer.stage.name} reads what other blocks make")
    for atom in set(made.spatial) - edge.unaligned - set(edge.consumer.atoms):
        if phase.axis_of(atom).blocks > 1:
            raise Illegal(f"{edge.consumer.stage.name} has no block of {made.stage.name}")


def _placed(
    edges: Sequence[Edge], phase: Phase, kept: Sequence[Node]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Return the nodes that registers keep for later nests, and those that shared memory does."""
    registers: dict[Node, None] = {}
    for edge in edges:
        made, nest = edge.producer, phase.nest_of(edge.producer)
        reader = phase.nest_of(edge.consumer)
        if nest is reader and not made.reduced and not edge.unaligned:
            continue
        if nest is reader:
            raise Illegal(f"{edge.consumer.stage.name} is in the loops that make what it reads")
        if made in kept:
            _refuse_elsewhere(edge, nest)
            continue
        if nest.warps is not None:
            raise Illegal(f"{made.stage.name} leaves fragments for shared memory only")
        if not is_alike(edge, nest, reader):
            raise Illegal(f"{made.stage.name} is not where {edge.consumer.stage.name} reads it")
        registers.setdefault(made)
    for node in kept:
        if shared_dims(node, phase) is None:
            raise Illegal(f"{node.stage.name} has no place in shared memory")
    return tuple(registers), tuple(kept)


def _refuse_elsewhere(edge: Edge, made: Nest) -> None:
    """Check that what lies in shared memory by its axes is read by them."""
    by_axes = isinstance(edge.producer.stage.out, Tile) or made.warps is not None
    if by_axes and edge.unaligned & set(edge.producer.atoms):
        reader, name = edge.consumer.stage.name, edge.producer.stage.name
        raise Illegal(f"{reader} reads {name} elsewhere than it is made")


def is_alike(edge: Edge, made: Nest, read: Nest) -> bool:
    """Return whether each thread reads, in one nest, what it has made in another."""
    return not edge.unaligned and made.of(edge.producer.spatial) == read.of(edge.producer.spatial)


def _held(phase: Phase, most: int) -> tuple[HeldKey, ...]:
    """Return what several nests read at every point, spread alike, in up to so many words."""
    first: dict[HeldKey, Nest] = {}
    found: dict[HeldKey, None] = {}
    params = set(phase.space.kernel.inputs)
    # Tiles may be loaded a step ahead: what they have is not what others of their step read.
    for nest in (nest for nest in phase.nests if not phase.fills_tiles(nest)):
        for node in nest.nodes:
            for load in always_read(node):
                access = node.reads[load]
                if load.tensor not in params or not is_affine(access, node):
                    continue
                key = held_key(access, nest)
                if key is None or key.words > most:
                    continue
                if first.setdefault(key, nest) is not nest:
                    found.setdefault(key)
    return tuple(found)


def _refuse_long_sums(phase: Phase) -> None:
    """Check that no thread adds up so many floats one by one that their sum loses digits.

    Of 16,000 equal float32 terms a running sum is off by 1.5e-4. Products have their bound.
    """
    for nest in phase.nests:
        for node in nest.nodes:
            rule = node.stage.reduction
            floats = node.stage.out.dtype.startswith(("float", "bfloat"))
            if rule is None or rule.kind != "sum" or not floats or is_tiled(node.stage):
                continue
            terms = values_of(node.reduced, nest)
            if terms > _MOST_TERMS:
                raise Illegal(f"a thread adds up {terms} terms of {node.stage.name} one by one")


def _refuse_size(phase: Phase, device: CudaDevice) -> None:
    kept = {*phase.registers, *phase.tiles_ahead()}
    words = sum(register_words(n, phase.nest_of(n)) for n in kept)
    sums = {n for nest in phase.nests for n in nest.nodes if n.reduced and nest.warps is None}
    words += sum(register_words(n, phase.nest_of(n)) for n in sums - set(phase.registers))
    if words > device.thread_registers:
        raise Illegal(f"a thread keeps {words} words between its nests")
    used = block_bytes(phase)
    if used > device.block_shared_bytes:
        raise Illegal(f"a block keeps {used} bytes in shared memory")
    if phase.has_fragments():
        _refuse_beside_fragments(phase)


def _refuse_beside_fragments(phase: Phase) -> None:
    """Check what is shared besides tiles: all of one type, one result if it is dynamic memory.

    There TVM puts barriers between arrays that have one place, which it can't within conditions.
    """
    kept = [node for node in phase.shared if not isinstance(node.stage.out, Tile)]
    if any(node.stage.out.dtype != "float32" for node in kept):
        raise Illegal("what tensor cores make shares its memory with numbers of its type only")
    if len(kept) > 1 and not fits_static(phase):
        raise Illegal("a block keeps more than a product in dynamic shared memory")


def picked(items: Sequence[T], number: int, what: str) -> T:
    if not 0 <= number < len(items):
        raise Illegal(f"the kernel has no {what} {number}")
    return items[number]
