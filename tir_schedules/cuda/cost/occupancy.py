"""How many threads of a launch a multiprocessor holds at a time."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.iteration_space import Node
from ...device.cuda import WARP, CudaDevice
from ...kernel_ir.expr import dtype_bytes
from ..plan.axes import FRAGMENT
from ..plan.fragments import fragments_of
from ..plan.kernel_plan import Phase
from ..plan.nest import Nest, register_words, values_of
from ..plan.shared import block_bytes
from .assumed import ASSUMED


def registers_of(phase: Phase) -> int:
    """Return about how many registers a thread needs."""
    points = [nest for nest in phase.nests if nest.warps is None]
    kept = {*phase.registers, *(n for nest in points for n in nest.nodes if n.reduced)}
    words = sum(register_words(n, phase.nest_of(n)) for n in kept)
    words += sum(_packed_words(n, phase.nest_of(n)) for n in phase.tiles_ahead() if n not in kept)
    words += sum(key.words for key in phase.held)
    words += sum(_fragment_words(nest, phase) for nest in phase.nests if nest.warps is not None)
    words += max((_in_flight(nest) for nest in phase.nests), default=0)
    return ASSUMED.addresses + words


def _packed_words(node: Node, nest: Nest) -> int:
    """Return the registers of what a thread loads and stores as it is: halves two by two."""
    return -(-values_of(node.spatial, nest) * dtype_bytes(node.stage.out.dtype) // 4)


def _fragment_words(nest: Nest, phase: Phase) -> int:
    """Return the registers of a lane for a warp's fragments: sums in floats, operands in halves."""
    made, lane = fragments_of(nest, phase), FRAGMENT * FRAGMENT // WARP
    return made.down * made.across * lane + (made.down + 1) * lane // 2


def _in_flight(nest: Nest) -> int:
    """Return the words that one trip of a nest loads and makes."""
    spread = nest.vector()
    width = 1 if spread is None else spread.width
    tensors = {a.tensor for n in nest.nodes for a in (n.store, *n.reads.values())}
    return sum(-(-width * dtype_bytes(tensor.dtype) // 4) for tensor in tensors)


def resident_threads(phases: Sequence[Phase], device: CudaDevice) -> int:
    """Return how many threads of a launch a multiprocessor holds, 0 if not even one block."""
    threads = -(-phases[0].threads // WARP) * WARP
    grain = device.register_grain
    wanted = min(device.thread_registers + 1, max(map(registers_of, phases)))
    registers = -(-wanted // grain) * grain
    blocks = min(
        device.blocks, device.threads // threads, device.registers // (registers * threads)
    )
    if used := block_bytes(*phases):
        blocks = min(blocks, device.shared_bytes // (used + 1024))
    return blocks * threads
