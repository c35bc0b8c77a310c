"""Emit what a row block of a product fetches of the next tile's inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import ir, tirx

from ..analysis.atoms import Atom
from ..analysis.expr import dtype_bytes
from . import prefetch
from .emit_expr import INDEX
from .nest import Nest, sequence
from .storage import total
from .sweeps import Sweep


def fetch_part(nest: Nest, sweep: Sweep, start: ir.Expr) -> tirx.Stmt:
    """Return the prefetches of the block of rows from `start` on: its part of the runs' pieces.

    Runs are cut into pieces if there are fewer than blocks. The last blocks ask for pieces that
    are none, which does no harm.
    """
    phase, outer = nest.phase, nest.position.outer
    blocks = -(-phase.inner_extent(nest.dims[nest.strip_at - 1]) // nest.group.rows)
    runs = math.prod(phase.inner_extent(a) for a in sweep.runs)
    width = prefetch.LINE_BYTES // dtype_bytes(sweep.access.tensor.dtype)
    lines = -(-sweep.elements // width)
    size = -(-lines // max(1, blocks // runs))
    pieces = -(-lines // size)
    count = -(-runs * pieces // blocks)
    block = tirx.FloorDiv(start, tirx.IntImm(INDEX, nest.group.rows))
    piece, line = tirx.Var("piece", INDEX), tirx.Var("line", INDEX)
    number = total([(count, block), (1, piece)])
    run, within = _divided(number, pieces)
    access = sweep.access
    parts = [(access.stride(a) * phase.chunks.get(a, 1), outer[a]) for a in phase.tile]
    parts += [(access.stride(a), digit) for a, digit in _digits(run, sweep.runs, nest)]
    parts += [(size * width, within), (width, line)]
    offset = total([p for p in parts if p[0]], access.const + sweep.ahead)
    flat = nest.storage.flat(access.tensor)
    asked = sequence(prefetch.fetch(flat, offset, 1, access.tensor.dtype, prefetch.TO_L2))
    lines_of = tirx.For(line, 0, size, tirx.ForKind.SERIAL, asked)
    return tirx.For(piece, 0, count, tirx.ForKind.SERIAL, lines_of)


def _divided(number: ir.Expr, by: int) -> tuple[ir.Expr, ir.Expr]:
    if by == 1:
        return number, tirx.IntImm(INDEX, 0)
    divisor = tirx.IntImm(INDEX, by)
    return tirx.FloorDiv(number, divisor), tirx.FloorMod(number, divisor)


def _digits(run: ir.Expr, atoms: Sequence[Atom], nest: Nest) -> list[tuple[Atom, ir.Expr]]:
    """Return the position of each atom in a run's number; the outermost may be past its end."""
    out = []
    for atom in reversed(atoms):
        if atom is not atoms[0]:
            run, digit = _divided(run, nest.phase.inner_extent(atom))
        else:
            digit = run
        out.append((atom, digit))
    return out
