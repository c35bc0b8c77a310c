"""What phases may have blocks beside each other in one launch."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.iteration_space import Space
from ...device.cuda import CudaDevice
from ..plan.kernel_plan import Phase
from ..plan.shared import block_bytes, fits_static
from .illegal import Illegal


def why_not_beside(space: Space, phases: Sequence[Phase], device: CudaDevice) -> str | None:
    """Return why phases have no blocks beside each other, or None."""
    try:
        refuse_beside(space, phases, device)
    except Illegal as reason:
        return str(reason)
    return None


def refuse_beside(space: Space, phases: Sequence[Phase], device: CudaDevice) -> None:
    """Check that blocks of a launch are alike, and read nothing that others of it make.

    Raises: Illegal.
    """
    if len({phase.threads for phase in phases}) > 1:
        raise Illegal("blocks beside each other have as many threads")
    home = {node: phase for phase in phases for node in phase.space.nodes}
    for edge in space.edges:
        made, reader = home.get(edge.producer), home.get(edge.consumer)
        if made is not None and reader is not None and made is not reader:
            raise Illegal(f"{edge.consumer.stage.name} reads what blocks beside it make")
    used = block_bytes(*phases)
    if used > device.block_shared_bytes:
        raise Illegal(f"a block keeps {used} bytes in shared memory")
    products = any(phase.has_fragments() for phase in phases)
    if len(phases) > 1 and products and not fits_static(*phases):
        raise Illegal("blocks beside each other keep their products in static shared memory")
