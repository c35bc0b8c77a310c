"""The latency evaluator of CPU plans: bytes a level over bandwidth, registers over throughput.

Source of the method: FusionStitching's latency-evaluator (section 4.3) with a CPU's terms: a wave
is a round of tiles over threads, and instructions are vector registers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ...analysis.iteration_space import Access, Atom, Node
from ...analysis.padded_sum import padded_sum
from ...device import LINE_BYTES, CpuDevice
from ...device.profile import OP_KINDS, Profile
from ...kernel_ir.cost import FREE, branches, value_ops
from ...kernel_ir.expr import Const, Expr, Op, Tensor, dtype_bytes, loads, transform
from ...kernel_ir.stage import Stage
from ..facts.division import BY_RECIPROCAL, OPERATIONS
from ..facts.products.depth_lanes import lanes_along_depth, register_lanes, share_of_strip
from ..facts.vectors import halves
from ..plan.kernel_plan import LoopNest, Phase, Plan
from .division import by_reciprocal
from .levels import level_of, read_ns_per_byte
from .limits import tiles_of_thread
from .overlap import OVERLAP
from .strips import slowdown

_F32 = 4
_KIND_OF = {
    "Div": "divide",
    "call:tirx.rsqrt": "sqrt",
    "call:tirx.exp2": "exp",
    "call:tirx.exp10": "exp",
    "call:tirx.log2": "log",
    "call:tirx.log10": "log",
    "call:tirx.log1p": "log",
    **{f"call:tirx.{kind}": kind for kind in OP_KINDS},
}


@dataclass(frozen=True)
class Latency:
    """A plan's time in ns and what it is made of: `compute` and `traffic` are of the whole plan."""

    total: float
    compute: float
    traffic: float
    regions: float


def estimate(plan: Plan, device: CpuDevice, between: int = 0) -> Latency:
    """Return the time of one call of a plan's kernel on `device.threads` threads.

    At least `between` bytes pass through the caches from one read of an input to the next.
    """
    return _Evaluator(plan, device, between).run()


def stage_ns(stage: Stage, profile: Profile) -> float:
    """Return the ns a stage's value takes on one vector register of points."""
    spent = sum(n * _op_ns(op, profile) for op, n in _operations(stage) if op.name not in FREE)
    return spent + (profile.op_ns["light"] if stage.reduction is not None else 0.0)


@functools.lru_cache(maxsize=1 << 12)
def _operations(stage: Stage) -> tuple[tuple[Op, float], ...]:
    """Return the operations of a point with how often each is done.

    A convolution's loops see to its padding. Positions that are told apart share what they compute.
    """
    padded = padded_sum(stage)
    if padded is not None:
        return tuple((op, 1.0) for op in value_ops(padded[0]))
    chains: list[list[Expr]] = []

    def rule(expr: Expr) -> Expr | None:
        values = branches(expr)
        if len(values) == 1:
            return None
        chains.append(values)
        return Const(0, expr.dtype)

    counted = [(op, 1.0) for op in value_ops(transform(stage.value, rule))]
    for values in chains:
        apart = dict.fromkeys(op for value in values for op in value_ops(value))
        counted += [(op, 1.0 / len(values)) for op in apart]
    return tuple(counted)


def arithmetic_ns(stages: Iterable[Stage], device: CpuDevice) -> float:
    """Return the ns one thread computes stages, each at all points of its domain."""
    return sum(
        stage_ns(stage, device.profile) * stage.domain / _lanes(stage, device.vector_bytes)
        for stage in stages
    )


def alone_ns(stage: Stage, device: CpuDevice) -> float:
    """Return about what a stage takes one thread by itself, its tensors in L2."""
    moved = stage.domain * _F32 * (1 + len(stage.loads()))
    each = read_ns_per_byte("L2", 1, device.profile)
    return overlapped_ns(arithmetic_ns((stage,), device), moved * each)


def overlapped_ns(compute: float, traffic: float) -> float:
    """Return the time of arithmetic and traffic that run side by side but for a part."""
    return max(compute, traffic) + OVERLAP.apart * min(compute, traffic)


def _op_ns(op: Op, profile: Profile) -> float:
    kind = _KIND_OF.get(op.name)
    if kind is None and op.name.startswith("call:") and op.name not in _LIGHT_CALLS:
        return profile.op_ns["libm"]
    return profile.op_ns[kind or "light"]


_LIGHT_CALLS = frozenset(
    f"call:tirx.{name}" for name in ("fabs", "if_then_else", "floor", "ceil", "round", "trunc")
)


class _Evaluator:
    def __init__(self, plan: Plan, device: CpuDevice, between: int = 0) -> None:
        self._plan, self._device, self._profile = plan, device, device.profile
        self._between = between
        self._threads = device.threads if plan.parallel else 1
        self._outputs = set(plan.space.kernel.outputs)
        self._streamed = set(plan.streamed)

    def run(self) -> Latency:
        compute = traffic = total = 0.0
        for phase in self._plan.phases:
            spent, moved = self._phase(phase)
            share = self._share(phase)
            compute += spent
            traffic += moved
            total += overlapped_ns(spent, moved) / share
        regions = self._profile.call_ns
        if self._plan.parallel:
            regions += self._profile.region(self._threads)
            regions += self._profile.barrier(self._threads) * self._plan.barriers
        checks = sum(_Evaluator(g.check, self._device).run().total for g in self._plan.guards)
        return Latency(total + regions + checks, compute, traffic, regions)

    def _share(self, phase: Phase) -> float:
        """Return by what the threads divide a phase's time."""
        tiles = phase.tiles()
        return tiles / tiles_of_thread(tiles, self._plan.tasks, self._threads)

    def _phase(self, phase: Phase) -> tuple[float, float]:
        """Return a phase's arithmetic and traffic on one thread, in ns."""
        tiles = phase.tiles() * _evenness(phase)
        touched = _touched(phase)
        inside = sum(_bytes_inside(t, nodes, phase) for t, nodes in touched.items())
        made = {n.stage.out for n in phase.nodes} - self._outputs
        between = max(self._between, sum(t.bytes for t in touched if t not in made))
        home, outside = (level_of(size, self._device) for size in (inside, between))
        fetched: dict[Tensor, int] = {}
        compute = traffic = 0.0
        for group in phase.nests():
            runs = tiles * phase.steps(group)
            if group.is_product:
                compute += self._product_ns(group, phase)
            else:
                compute += runs * self._compute(group, phase)
            for tensor, access, node in _accesses(group):
                moved = runs * _bytes_of(access, node, phase)
                if tensor not in made:
                    left = tensor.bytes - fetched.get(tensor, 0)
                    first = min(moved, left)
                    fetched[tensor] = fetched.get(tensor, 0) + first
                    slower = slowdown(access, node, phase.tile, phase.chunks, self._device)
                    traffic += self._moved_ns(first * slower, outside, node, access)
                    moved -= first
                traffic += self._moved_ns(moved, home, node, access)
        return compute, traffic

    def _compute(self, group: LoopNest, phase: Phase) -> float:
        lanes = min(_lanes(n.stage, self._plan.vector_bytes) for n in group.nodes)
        registers = _registers(group, phase, lanes)
        spent = registers * sum(self._node_ns(n, group) for n in group.nodes)
        if group.lanes > 1:
            spent += self._profile.fold_ns * sum(_folds(n, group, phase) for n in group.nodes)
        return spent

    def _product_ns(self, group: LoopNest, phase: Phase) -> float:
        """Return the time of a register tile: ragged ends of its rows and of tiles cost nothing."""
        (node,), width = group.nodes, self._plan.vector_bytes
        lane = group.dims[-1].extent
        apart = lanes_along_depth(lane % group.lanes, group, phase, width)
        whole = -(-(lane - apart) // group.lanes) * group.lanes
        if apart:
            whole += share_of_strip(apart, group, phase, width) * register_lanes(group, width)
        full = whole / lane
        registers = node.stage.domain * full / _lanes(node.stage, self._plan.vector_bytes)
        return registers * stage_ns(node.stage, self._profile)

    def _node_ns(self, node: Node, group: LoopNest) -> float:
        """Return what a register of a node's points takes, divisions by a reciprocal if so made."""
        spent = stage_ns(node.stage, self._profile)
        if group.lanes == 1 or not by_reciprocal(self._profile):
            return spent
        settled = sum(
            op.name == "Div" and op.dtype in BY_RECIPROCAL and _is_settled(op, node, group.dims[-1])
            for op in node.stage.operations
        )
        each = self._profile.op_ns["divide"] - OPERATIONS * self._profile.op_ns["light"]
        return spent - settled * each

    def _moved_ns(self, moved: float, level: str, node: Node, access: Access) -> float:
        """Return the time one thread's share of the bandwidth takes for `moved` bytes."""
        if level != "memory" or access is not node.store:
            return moved * read_ns_per_byte(level, self._threads, self._profile)
        row = self._profile.bandwidth(level, self._threads)
        copied = row.stream if access.tensor in self._streamed else row.copy
        # A copy reads what it writes: its time less the reading is the writing's.
        writing = 2.0 / copied - 1.0 / row.read
        return moved * max(writing, 0.5 / copied) * row.threads


def _lanes(stage: Stage, vector_bytes: int) -> int:
    """Return the points of a stage in a vector register; narrow dtypes are computed in float32."""
    return vector_bytes // max(_F32, dtype_bytes(stage.value.dtype))


def _registers(group: LoopNest, phase: Phase, lanes: int) -> float:
    """Return the vector registers of a tile's points, those of a ragged end not all full."""
    if not group.dims:
        return 1.0
    *outer, vector = (phase.inner_extent(d) for d in group.dims)
    whole, left = divmod(vector, group.lanes)
    full = whole * max(1.0, group.lanes / lanes)
    return math.prod(outer) * (full + sum(max(1.0, width / lanes) for width in halves(left)))


def _evenness(phase: Phase) -> float:
    """Return the average size of a tile in whole ones, of products whose blocks of rows differ."""
    if not any(group.is_product for group in phase.groups):
        return 1.0
    return math.prod(a.extent / (-(-a.extent // n) * n) for a, n in phase.chunks.items())


def _is_settled(quotient: Op, node: Node, vector: Atom) -> bool:
    """Return whether a quotient's divisor is the same in all lanes, and its dividend is not."""
    moving = [any(node.reads[ld].stride(vector) != 0 for ld in loads(a)) for a in quotient.args]
    return moving == [True, False]


def _folds(node: Node, group: LoopNest, phase: Phase) -> int:
    """Return how many accumulators of lanes a tile folds into single results."""
    if group.dims[-1] not in node.reduced:
        return 0
    return math.prod(phase.inner_extent(d) for d in group.dims if d not in node.reduced)


def _accesses(group: LoopNest) -> list[tuple[Tensor, Access, Node]]:
    out = []
    for node in group.nodes:
        out += [(a.tensor, a, node) for a in node.reads.values()]
        out.append((node.stage.out, node.store, node))
    return out


def _touched(phase: Phase) -> dict[Tensor, list[tuple[Access, Node]]]:
    found: dict[Tensor, list[tuple[Access, Node]]] = {}
    for group in phase.nests():
        for tensor, access, node in _accesses(group):
            found.setdefault(tensor, []).append((access, node))
    return found


def _bytes_inside(tensor: Tensor, uses: list[tuple[Access, Node]], phase: Phase) -> int:
    return min(tensor.bytes, max(_bytes_of(access, node, phase) for access, node in uses))


def _bytes_of(access: Access, node: Node, phase: Phase) -> int:
    """Return the bytes an access touches in one tile: whole lines where it jumps over lines."""
    width = dtype_bytes(access.tensor.dtype)
    moving = [a for a in phase.inside(node.atoms) if access.stride(a) != 0]
    count = math.prod(phase.inner_extent(a) for a in moving)
    strides = [abs(s) for a in moving if (s := access.stride(a)) is not None]
    apart = min(strides, default=1) * width
    return count * min(max(apart, width), LINE_BYTES)
