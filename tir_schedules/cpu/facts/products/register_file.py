"""The vector registers of a CPU, and the register tile that they hold."""

from __future__ import annotations

from ....device import CpuDevice

# Rows of a register tile: 28 accumulators of 32 registers (AVX-512), 12 of 16 otherwise.
_ROWS = {64: 14, 32: 6, 16: 6}
MOST_ROWS = max(_ROWS.values())
REGISTERS = {64: 32, 32: 16, 16: 16}
LANE_REGISTERS = 2


def most_rows(device: CpuDevice, beside: int = 0, across: int = LANE_REGISTERS) -> int:
    """Return the rows of a register tile that registers hold, with `beside` more for each row.

    Each is `across` registers wide.

    LLVM broadcasts what does not change along the lanes outside the sum, and keeps it: with 13 rows
    and a divisor of each it spilled accumulators instead, and attention took 1.3 times as long.
    """
    rows, registers = _ROWS[device.vector_bytes], REGISTERS[device.vector_bytes]
    return min(rows, (registers - across - 1) // (across + beside))
