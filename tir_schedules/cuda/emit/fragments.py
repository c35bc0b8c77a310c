"""A product by tensor cores: fragments of the tiles, added up in fragments of the result.

The names are wmma's (CUDA C++ Programming Guide, "Warp Matrix Functions").
"""

from __future__ import annotations

from tvm import ir, tirx

from ...analysis.iteration_space import Node
from ...device.cuda import WARP
from ...tensor_ir.numbers import total
from ..plan.axes import FRAGMENT
from ..plan.fragments import Fragments
from ..plan.kernel_plan import Phase
from ..plan.shared import shared_dims
from .code import number, unrolled
from .storage import Storage

_READ, _WRITE = 1, 2


class FragmentEmitter:
    """Emits a product: `start` and `store` stand before and behind the loop of steps."""

    def __init__(self, made: Fragments, phase: Phase, storage: Storage, thread: ir.Var) -> None:
        self._made, self._phase, self._storage = made, phase, storage
        warp = tirx.FloorDiv(thread, number(WARP))
        across = phase.nest_of(made.product).warps[1]
        self._row = tirx.FloorDiv(warp, number(across))
        self._column = tirx.FloorMod(warp, number(across))
        square, dtype = FRAGMENT * FRAGMENT, made.left.stage.out.dtype
        count = made.down * made.across
        self._sums = storage.fragments("sums", square * count, "float32", "wmma.accumulator")
        self._left = storage.fragments("left", square * made.down, dtype, "wmma.matrix_a")
        self._right = storage.fragments("right", square, dtype, "wmma.matrix_b")

    def start(self) -> list[tirx.Stmt]:
        zero, size = tirx.FloatImm("float32", 0.0), (FRAGMENT,) * 3
        return [
            _do("tvm_fill_fragment", tirx.buffer_data(self._sums), *size, number(at), zero)
            for at in range(self._made.down * self._made.across)
        ]

    def body(self) -> list[tirx.Stmt]:
        nest = self._phase.nest_of(self._made.product)
        terms = self._phase.serial_axis(nest).block // FRAGMENT
        return unrolled("terms", terms, self._terms)

    def _terms(self, at: ir.Expr) -> list[tirx.Stmt]:
        made, out = self._made, []
        for n in range(made.down):
            first = total([(made.down, self._row)], n)
            out.append(self._load(self._left, n, made.left, at, first, ("row_major", "col_major")))
        for n in range(made.across):
            first = total([(made.across, self._column)], n)
            out.append(
                self._load(self._right, 0, made.right, at, first, ("col_major", "row_major"))
            )
            for m in range(made.down):
                sums, place = tirx.buffer_data(self._sums), number(m * made.across + n)
                left, right = map(tirx.buffer_data, (self._left, self._right))
                out.append(
                    _do("tvm_mma_sync", sums, place, left, number(m), right, number(0), sums, place)
                )
        return out

    def _load(
        self,
        into: ir.Var,
        slot: int,
        tile: Node,
        term: ir.Expr,
        first: ir.Expr,
        layouts: tuple[str, str],
    ) -> tirx.Stmt:
        """Load the fragment of a tile from a term and a row or column on.

        Of the layouts the first is of lines of terms, the other of lines of rows or columns.
        """
        pitch = _pitch(tile, self._phase)
        serial = self._phase.serial_axis(self._phase.nest_of(self._made.product))
        has_lines_of_terms = shared_dims(tile, self._phase)[-1].axis is serial
        lines, along = (first, term) if has_lines_of_terms else (term, first)
        layout = layouts[0] if has_lines_of_terms else layouts[1]
        offset = total([(FRAGMENT * pitch, lines), (FRAGMENT, along)])
        place = _pointer(self._storage.shared[tile], offset, FRAGMENT * pitch, _READ)
        size = (FRAGMENT,) * 3
        data = tirx.buffer_data(into)
        return _do("tvm_load_matrix_sync", data, *size, number(slot), place, number(pitch), layout)

    def store(self) -> list[tirx.Stmt]:
        """Store the result where it is shared."""
        made, out = self._made, []
        pitch, size = _pitch(made.product, self._phase), (FRAGMENT,) * 3
        buffer, data = self._storage.shared[made.product], tirx.buffer_data(self._sums)
        for m in range(made.down):
            for n in range(made.across):
                row = total([(made.down, self._row)], m)
                column = total([(made.across, self._column)], n)
                offset = total([(FRAGMENT * pitch, row), (FRAGMENT, column)])
                place = _pointer(buffer, offset, FRAGMENT * pitch, _WRITE)
                at = number(m * made.across + n)
                out.append(
                    _do("tvm_store_matrix_sync", data, *size, at, place, number(pitch), "row_major")
                )
        return out


def _pitch(node: Node, phase: Phase) -> int:
    """Return how many elements apart the lines of what is shared are."""
    last = shared_dims(node, phase)[-1]
    return last.size + last.pad


def _pointer(buffer: ir.Var, offset: ir.Expr, extent: int, mask: int) -> ir.Expr:
    """Return a pointer that TVM's passes know to reach over so many elements.

    An address of one element would not do: they would shrink its buffer to that.
    """
    dtype, data = str(buffer.ty.dtype.dtype), tirx.buffer_data(buffer)
    return tirx.tvm_access_ptr(dtype, data, offset, number(extent), mask)


def _do(name: str, *args: object) -> tirx.Stmt:
    return tirx.Evaluate(getattr(tirx, name)(*args))
