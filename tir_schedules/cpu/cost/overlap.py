"""What the evaluator assumes of a core, of every x86 CPU alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Overlap:
    """Assumptions that no profile has figures for.

    Loads run ahead of arithmetic as far as the reorder buffer reaches: a part, `apart`, of the
    shorter of them is not hidden.

    A product reads its operand scalar by scalar in some rows at a time, which no prefetcher
    follows: a byte from another core takes it `scalars` times as long as in the rows that
    `handover_ns` is measured on (three layers of 256 rows, 13 to 512 to 256 to 128: 41 us for 320
    KiB).

    A state that goes from step to step within a kernel has lines that other cores have read: each
    takes `exchanged_line_ns` to be written again (by hand, loops planned both ways on a Zen 5 EPYC:
    70 to 350 ns a line; no script has it yet).

    A parallel region takes `region_ns` where a profile was made with one CPU.
    """

    apart: float = 0.25
    scalars: float = 2.0
    exchanged_line_ns: float = 100.0
    region_ns: float = 1_000.0


OVERLAP = Overlap()
