"""Non-temporal stores for results that no cache can hold: they skip reading the line first.

A plain store to memory moves every line twice (read for ownership, write back). TensorIR has no
other, so a function of LLVM IR is imported into the kernel and inlined there.
"""

from __future__ import annotations

from tvm import ir, tirx

from ..analysis.expr import Tensor, dtype_bytes
from .emit_expr import INDEX

_LLVM_TYPES = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64"}
_SFENCE = "stitch_sfence"


def can_stream(dtype: str) -> bool:
    return dtype in _LLVM_TYPES


def import_code(body: tirx.Stmt, tensors: tuple[Tensor, ...], vector_bytes: int) -> tirx.Stmt:
    """Return `body` with the store functions of these tensors' dtypes in reach."""
    parts = [f"define void @{_SFENCE}() {{\n  call void @llvm.x86.sse.sfence()\n  ret void\n}}"]
    parts += [_store_code(d, vector_bytes) for d in sorted({t.dtype for t in tensors})]
    parts += ["declare void @llvm.x86.sse.sfence()", "!0 = !{i32 1}"]
    code = ir.StringImm("\n".join(parts))
    return tirx.AttrStmt(tirx.IntImm(INDEX, 0), "pragma_import_llvm", code, body)


def _store_code(dtype: str, vector_bytes: int) -> str:
    """Return a function that stores one register past the caches if its address is aligned."""
    lanes = vector_bytes // dtype_bytes(dtype)
    vector = f"<{lanes} x {_LLVM_TYPES[dtype]}>"
    return f"""define void @{_name(dtype, lanes)}(ptr %p, {vector} %v) {{
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


def stream(
    flat: ir.Var, offset: ir.Expr, lanes: ir.Var, width: int, dtype: str, vector_bytes: int
) -> list[tirx.Stmt]:
    """Return the stores of `lanes[0:width]` to `flat[offset:]`, a register at a time."""
    step = vector_bytes // dtype_bytes(dtype)
    out: list[tirx.Stmt] = []
    for start in range(0, width, step):
        index = tirx.Ramp(tirx.IntImm(INDEX, start), tirx.IntImm(INDEX, 1), step)
        value = tirx.BufferLoad(lanes, [index])
        place = tirx.address_of(tirx.BufferLoad(flat, [offset + start]))
        out.append(tirx.Evaluate(tirx.call_extern("void", _name(dtype, step), place, value)))
    return out


def fence() -> tirx.Stmt:
    """Return the fence that orders streamed stores before the task counts as done."""
    return tirx.Evaluate(tirx.call_extern("void", _SFENCE))
