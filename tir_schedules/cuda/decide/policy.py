"""What defaults are chosen from: sizes of blocks, and when more than the plain way is tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockPolicy:
    """Sizes that are tried, and their limits.

    `threads` of a block, `trips` of each along an axis that blocks cut, at least `sector` words of
    threads side by side. `turned` are lines and columns of a tile that is read across its lines, by
    `turned_rows` of threads. A thread keeps up to `words`: of 255 registers nvcc needs the others.
    With fragments, whose addresses are few, it keeps `fragment_words`.

    `tiles` are rows and columns of a product's block and its threads along both, 16 to 64 results
    of a thread; `fragments` the same in warps of tensor cores; `steps` and `fragment_steps` the
    terms of a step, `across` the threads along columns behind tensor cores.

    Sums of at least `long_sum` positions, in kernels of `worth` points, go in parts if a launch has
    fewer than `few` blocks a multiprocessor: as many as give `waves` of blocks of `share` results,
    of a product `product_share`. An axis of `long_axis` positions is cut, before shorter ones.
    Parts are whole numbers of `vector`, of a product `terms`. Rows of exps that a product reads go
    in parts of about `row_parts`, which a block has room for; rows whose squares are about their
    mean, if no block holds them, of `centred_parts`.

    `widths`, `holds` and `unrolls` are candidates of knobs of those names.

    Of the `refined` best tiles other steps are tried. A kernel has up to `stages`: planning takes
    longer than they gain.
    """

    threads: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    trips: tuple[int, ...] = (1, 4)
    sector: int = 8
    turned: tuple[tuple[int, int], ...] = ((32, 32), (64, 32), (32, 64), (64, 64))
    turned_rows: tuple[int, ...] = (4, 8)
    words: int = 144
    fragment_words: int = 192

    tiles: tuple[tuple[int, int, int, int], ...] = (
        (128, 128, 16, 16),
        (128, 64, 16, 16),
        (64, 128, 16, 16),
        (64, 64, 16, 16),
        (64, 32, 16, 8),
        (32, 64, 8, 16),
        (32, 32, 8, 8),
        (16, 64, 4, 16),
        (16, 32, 4, 8),
        (8, 32, 4, 8),
    )
    fragments: tuple[tuple[int, int, int, int], ...] = (
        (256, 128, 4, 2),
        (128, 256, 2, 4),
        (128, 128, 4, 2),
        (128, 128, 2, 2),
        (128, 64, 4, 2),
        (128, 64, 2, 2),
        (128, 64, 2, 1),
        (64, 128, 2, 4),
        (64, 64, 2, 2),
        (64, 64, 1, 1),
        (32, 64, 2, 2),
        (32, 128, 2, 4),
        (32, 32, 2, 1),
        (16, 64, 1, 4),
        (16, 32, 1, 2),
    )
    steps: tuple[int, ...] = (8, 16, 32)
    fragment_steps: tuple[int, ...] = (16, 32, 64)
    across: int = 16

    long_sum: int = 512
    worth: int = 1 << 16
    few: int = 2
    waves: tuple[int, ...] = (1, 4)
    share: tuple[int, ...] = (1, 32)
    product_share: tuple[int, ...] = (32 * 32, 64 * 64)
    long_axis: int = 128
    vector: int = 4
    terms: int = 64
    row_parts: tuple[int, ...] = (256, 512, 1024)
    centred_parts: tuple[int, ...] = (8192, 32768)

    widths: tuple[int, ...] = (1, 2, 4, 8)
    holds: tuple[int, ...] = (96, 48, 0)
    unrolls: tuple[int, ...] = (32, 8, 0)

    refined: int = 3
    stages: int = 48


BLOCKS = BlockPolicy()
