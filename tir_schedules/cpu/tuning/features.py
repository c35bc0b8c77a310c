"""A plan in numbers: what a model learns from that predicts how long it takes.

The kernel's summary, the evaluator's terms, and what was decided: of the nest that visits most
points, of the last few that reduce and of the last few that do not. Sizes are in powers of two. A
number that does not apply is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...device import CpuDevice
from ...kernel_ir.expr import dtype_bytes
from ..cost.levels import level_of
from ..cost.streaming_latency import estimate_any
from ..plan.decisions import FORMS, LOOPS, PRODUCT, TRANSPOSED, WINDOW
from ..plan.kernel_plan import LoopNest, Phase, Plan
from ..plan.streaming_attention import StreamingAttention

_LEVELS = ("L1", "L2", "L3", "memory")
_OF_ROLE = 3  # nests
Feature = Iterator[tuple[str, float]]


def features(plan: Plan, device: CpuDevice) -> dict[str, float]:
    """Return the numbers of a plan by their names."""
    found = [*_of_kernel(plan, device), *_of_estimate(plan, device), *_of_plan(plan, device)]
    if plan.streaming is not None:
        found += _of_attention(plan.streaming)
    nests = [(phase, nest) for phase in plan.phases for nest in phase.nests() if nest.nodes]
    if nests:
        found += _of_heaviest(*max(nests, key=lambda each: _points(each[1])), plan)
        found += _of_nests([nest for _, nest in nests])
        found += _of_roles(nests)
    return dict(found)


def predicted_ns(plan: Plan, device: CpuDevice) -> float:
    """Return what a call of the plan's kernel takes by the evaluator."""
    return estimate_any(plan, device).total


def _log(value: float) -> float:
    return math.log2(max(value, 1.0))


def _of_kernel(plan: Plan, device: CpuDevice) -> Feature:
    kernel = plan.kernel
    nbytes = sum(tensor.bytes for tensor in kernel.touched)
    domains = [stage.domain for stage in kernel.stages]
    reduced = [math.prod(a.extent for a in s.reduced) for s in kernel.stages if s.reduced]
    yield "stages", len(kernel.stages)
    yield "reductions", len(reduced)
    yield "params", len(kernel.params)
    yield "item bytes", max(dtype_bytes(tensor.dtype) for tensor in kernel.params)
    yield "bytes", _log(nbytes)
    yield "bytes of outputs", _log(sum(tensor.bytes for tensor in kernel.outputs))
    yield "level", _LEVELS.index(level_of(nbytes, device))
    yield "points", _log(sum(domains))
    yield "most points", _log(max(domains, default=0))
    yield "longest reduction", _log(max(reduced, default=0))
    yield "operations", _log(sum(s.domain * (1 + s.light) for s in kernel.stages))
    yield "expensive operations", _log(sum(s.domain * s.expensive for s in kernel.stages))
    yield "threads", device.threads


def _of_estimate(plan: Plan, device: CpuDevice) -> Feature:
    told = estimate_any(plan, device)
    yield "predicted", _log(told.total)
    yield "compute", _log(told.compute)
    yield "traffic", _log(told.traffic)
    yield "compute of traffic", _log(told.compute) - _log(told.traffic)
    yield "regions", told.regions / max(told.total, 1.0)


def _of_plan(plan: Plan, device: CpuDevice) -> Feature:
    tiles = [phase.tiles() for phase in plan.phases if not phase.combine]
    yield "parallel", plan.parallel
    yield "tasks", _log(plan.tasks)
    yield "phases", len(plan.phases)
    yield "barriers", plan.barriers
    yield "guards", len(plan.guards)
    yield "streamed", len(plan.streamed)
    yield "tile bytes", _log(plan.tile_bytes)
    yield "tile level", _LEVELS.index(level_of(plan.tile_bytes, device))
    yield "workspace bytes", _log(sum(tensor.bytes for tensor in plan.workspace))
    yield "most tiles", _log(max(tiles, default=1))
    yield "fewest tiles", _log(min(tiles, default=1))
    yield "partial sums", sum(len(phase.partial) for phase in plan.phases)
    yield "serial axes", sum(phase.serial_tile_axis is not None for phase in plan.phases)
    yield "shared buffers", sum(len(phase.shared) for phase in plan.phases)
    if plan.parallel:
        rounds = (math.ceil(min(n, plan.tasks) / device.threads) for n in tiles)
        shares = zip(tiles, rounds, strict=True)
        yield "idle", max((r * device.threads / min(n, plan.tasks) for n, r in shares), default=1)


def _of_attention(form: StreamingAttention) -> Feature:
    yield "attention rows", _log(form.tile_rows)
    yield "attention tiles", _log(form.all_tiles)
    yield "attention keys", _log(form.attention.key.extent)
    yield "attention depth", _log(form.attention.depth.extent)


def _of_heaviest(phase: Phase, nest: LoopNest, plan: Plan) -> Feature:
    width = max(dtype_bytes(node.stage.value.dtype) for node in nest.nodes)
    last = phase.inner_extent(nest.dims[-1]) if nest.dims else 1
    form = _form(nest)
    for each in FORMS:
        yield f"is {each}", form == each
    yield "lanes", _log(nest.lanes)
    yield "registers a strip", nest.lanes * width / plan.vector_bytes
    yield "rows", nest.rows
    yield "accumulators", nest.rows * max(1.0, nest.lanes * width / plan.vector_bytes)
    yield "last extent", _log(last)
    yield "ragged lanes", last % nest.lanes / last
    yield "loops", len(nest.dims)
    yield "strip level", nest.strip_level
    yield "loops in a strip", len(nest.dims) - 1 - nest.strip_level
    yield "inner points", _log(math.prod(phase.inner_extent(dim) for dim in nest.dims))
    yield "strided", _strided(nest)
    yield "packs rows", nest.packed is not None
    yield "has epilogue", nest.epilogue is not None
    yield "flattened", nest.flattened_outer is not None
    for number, atom in enumerate(reversed(phase.numbering()[-2:])):
        yield f"chunk {number}", _log(phase.chunks.get(atom, 1))
        yield f"tiled extent {number}", _log(atom.extent)
    if phase.numbering():
        yield "outer tiled extent", _log(phase.numbering()[0].extent)
    for number, atom in enumerate(reversed(nest.dims[:-1])):
        if number < 3:
            yield f"loop {number}", _log(phase.inner_extent(atom))
            yield f"loop {number} reduces", any(atom in node.reduced for node in nest.nodes)
    if nest.rows > 1:
        yield "rows left over", phase.tile_rows(nest) % nest.rows / nest.rows


def _of_nests(nests: list[LoopNest]) -> Feature:
    points = [_points(nest) for nest in nests]
    yield "nests", len(nests)
    for name, values in (
        ("lanes", [_log(nest.lanes) for nest in nests]),
        ("rows", [nest.rows for nest in nests]),
        ("strip level", [nest.strip_level for nest in nests]),
    ):
        weighted = sum(n * value for n, value in zip(points, values, strict=True))
        yield f"mean {name}", weighted / max(1, sum(points))
    yield "nests in lanes", sum(nest.lanes > 1 for nest in nests)
    yield "fetches", sum(len(nest.fetches) for nest in nests)
    yield "fetches of the next tile", sum(len(nest.next_tile) for nest in nests)
    yield "nests that shuffle", sum(nest.shuffles for nest in nests)
    yield "nests with reciprocals", sum(nest.reciprocals for nest in nests)


def _of_roles(nests: list[tuple[Phase, LoopNest]]) -> Feature:
    """Yield what was decided of the last few nests that reduce, and of the last few that do not.

    What suits the sum of one kernel or the pass that stores its rows suits another's.
    """
    roles: dict[str, list[tuple[Phase, LoopNest]]] = {"sum": [], "pass": []}
    for phase, nest in nests:
        if nest.dims:
            reduces = any(node.stage.reduced for node in nest.nodes)
            roles["sum" if reduces else "pass"].append((phase, nest))
    for role, found in roles.items():
        for number, (phase, nest) in enumerate(found[: -_OF_ROLE - 1 : -1]):
            for name, value in _of_nest(phase, nest):
                yield f"{role} {number} {name}", value


def _of_nest(phase: Phase, nest: LoopNest) -> Feature:
    yield "lanes", _log(nest.lanes)
    yield "rows", nest.rows
    yield "strip level", nest.strip_level
    yield "fetches", len(nest.fetches)
    yield "fetches of the next tile", len(nest.next_tile)
    yield "reciprocals", nest.reciprocals
    yield "shuffles", nest.shuffles
    yield "last extent", _log(phase.inner_extent(nest.dims[-1]))
    yield "reads", sum(len(node.reads) for node in nest.nodes)
    yield "expensive operations", sum(node.stage.expensive for node in nest.nodes)


def _points(nest: LoopNest) -> int:
    return sum(node.stage.domain for node in nest.nodes)


def _form(nest: LoopNest) -> str:
    if nest.transposed:
        return TRANSPOSED
    if nest.window is not None:
        return WINDOW
    return PRODUCT if nest.is_product else LOOPS


def _strided(nest: LoopNest) -> int:
    """Return how many accesses of the nodes jump from lane to lane."""
    if not nest.dims:
        return 0
    accesses = [a for node in nest.nodes for a in (*node.reads.values(), node.store)]
    return sum(a.stride(nest.dims[-1]) not in (0, 1) for a in accesses)
