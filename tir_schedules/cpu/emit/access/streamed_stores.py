"""Emit non-temporal stores, which skip reading the line first.

TensorIR has none, so a function of LLVM IR is imported into the kernel and inlined there.
"""

from __future__ import annotations

from tvm import ir, tirx

from ....kernel_ir.expr import Tensor, dtype_bytes
from ....tensor_ir.numbers import INDEX
from ...facts.memory.streamed_stores import MOST_REGISTERS

_LLVM_TYPES = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64"}
_SFENCE = "stitch_sfence"


def import_code(body: tirx.Stmt, tensors: tuple[Tensor, ...], vector_bytes: int) -> tirx.Stmt:
    """Return `body` with the store functions of these tensors' dtypes in reach."""
    parts = [f"define void @{_SFENCE}() {{\n  call void @llvm.x86.sse.sfence()\n  ret void\n}}"]
    for dtype in sorted({t.dtype for t in tensors}):
        parts += [
            _store_code(dtype, vector_bytes, registers) for registers in _powers(MOST_REGISTERS)
        ]
    parts += ["declare void @llvm.x86.sse.sfence()", "!0 = !{i32 1}"]
    code = ir.StringImm("\n".join(parts))
    return tirx.AttrStmt(tirx.IntImm(INDEX, 0), "pragma_import_llvm", code, body)


def _store_code(dtype: str, vector_bytes: int, registers: int) -> str:
    """Return a function that stores registers past the caches if their address is aligned."""
    lanes = registers * vector_bytes // dtype_bytes(dtype)
    vector = f"<{lanes} x {_LLVM_TYPES[dtype]}>"
    return f"""define void @{_name(dtype, lanes)}(ptr %p, {vector} %v) alwaysinline {{
  %address = ptrtoint ptr %p to i64
  %offset = and i64 %address, {vector_bytes - 1}
  %aligned = icmp eq i64 %offset, 0
  br i1 %aligned, label %stream, label %plain
stream:
  store {vector} %v, ptr %p, align {vector_bytes}, !nontemporal !0
  ret void
plain:
  store {vector} %v, ptr %p, align {dtype_bytes(dtype)}
  ret void
}}"""


def _name(dtype: str, lanes: int) -> str:
    return f"stitch_stream_{dtype}x{lanes}"


def stream(flat: ir.Var, offset: ir.Expr, lanes: ir.Var, width: int, dtype: str) -> tirx.Stmt:
    """Return the store of `lanes[0:width]`, whole registers, to `flat[offset:]`.

    All registers in one call, so in one branch on the address: with one branch each, LLVM sinks
    their computations between the branches and no two of them overlap.
    """
    index = tirx.Ramp(tirx.IntImm(INDEX, 0), tirx.IntImm(INDEX, 1), width)
    value = tirx.BufferLoad(lanes, [index])
    place = tirx.address_of(tirx.BufferLoad(flat, [offset]))
    return tirx.Evaluate(tirx.call_extern("void", _name(dtype, width), place, value))


def fence() -> tirx.Stmt:
    """Return the fence that orders streamed stores before the task counts as done."""
    return tirx.Evaluate(tirx.call_extern("void", _SFENCE))


def _powers(most: int) -> list[int]:
    """Return the powers of two up to `most`."""
    return [1 << bit for bit in range(most.bit_length())]
