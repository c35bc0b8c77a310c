"""Emit the steps of a product that fetches what the next tile reads and writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import ir, tirx

from ...analysis.iteration_space import Atom
from ...device import LINE_BYTES
from ...kernel_ir.expr import dtype_bytes
from ...tensor_ir.numbers import INDEX, total
from ..plan.memory import TO_L2, NextTilePrefetch
from .access import prefetch
from .nest import Nest, sequence

Body = Callable[[], list[tirx.Stmt]]


def prefetching_steps(nest: Nest, depth: Atom, start: ir.Expr, emit: Body) -> list[tirx.Stmt]:
    """Emit the loop over the depth of the strip from `start` on, with its part of the lines.

    So many steps stand together that about a line is asked for with them.
    """
    phase, loops, sweeps = nest.phase, nest.position.loops, nest.group.next_tile
    row = nest.dims[nest.strip_at - 1]
    strips = -(-phase.inner_extent(nest.vector) // nest.group.lanes)
    blocks = -(-phase.inner_extent(row) // nest.group.rows)
    block = tirx.FloorDiv(loops[row], tirx.IntImm(INDEX, nest.group.rows))
    strip = tirx.FloorDiv(start, tirx.IntImm(INDEX, nest.group.lanes))
    shares, numbers = [], []
    for sweep in sweeps:
        digits = [(phase.outer_extent(a), nest.position.outer[a]) for a in sweep.repeats]
        digits += [(blocks, block), (strips, strip)]
        parts = math.prod(extent for extent, _ in digits)
        shares.append(-(-sweep.count(phase) * sweep.lines() // parts))
        numbers.append(_number(digits))
    # A burst of more lines than there are steps would stall, and its code fill the cache.
    apart = max(1, 1 << (depth.extent // max(shares)).bit_length() >> 1)
    steps = math.gcd(depth.extent, apart)
    turns = depth.extent // steps
    turn, step, saved = tirx.Var("turn", INDEX), tirx.Var(depth.name, INDEX), loops[depth]
    body: list[tirx.Stmt] = []
    for sweep, share, number in zip(sweeps, shares, numbers, strict=True):
        each = -(-share // turns)
        for at in range(each):
            line = total([(share, number), (each, turn)], at)
            body += _fetched(nest, sweep, line)
    loops[depth] = total([(steps, turn), (1, step)])
    body.append(tirx.For(step, 0, steps, tirx.ForKind.SERIAL, sequence(emit())))
    loops[depth] = saved
    return [tirx.For(turn, 0, turns, tirx.ForKind.SERIAL, sequence(body))]


def _number(digits: Sequence[tuple[int, ir.Expr]]) -> ir.Expr:
    """Return the number of which these are the extents and digits, the first the outermost."""
    scale, parts = 1, []
    for extent, digit in reversed(digits):
        parts.append((scale, digit))
        scale *= extent
    return total(parts)


def _fetched(nest: Nest, sweep: NextTilePrefetch, line: ir.Expr) -> list[tirx.Stmt]:
    """Return the prefetch of a line by its number; past the last one it does no harm."""
    access, phase, outer = sweep.access, nest.phase, nest.position.outer
    run, within = _divided(line, sweep.lines())
    parts = [(access.stride(a) * phase.chunks.get(a, 1), outer[a]) for a in phase.tile]
    parts += [(access.stride(a), digit) for a, digit in _digits(run, sweep.runs, nest)]
    parts += [(LINE_BYTES // dtype_bytes(access.tensor.dtype), within)]
    offset = total([p for p in parts if p[0]], access.const + sweep.ahead)
    flat = nest.storage.flat(access.tensor)
    dtype, cache = access.tensor.dtype, TO_L2
    return prefetch.fetch(flat, offset, 1, dtype, cache, writes=sweep.writes)


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
