"""Non-temporal stores for results that no cache can hold: they skip reading the line first.

A plain store to memory moves every line twice (read for ownership, write back). TensorIR has no
other, so a function of LLVM IR is imported into the kernel and inlined there.
"""

from __future__ import annotations

from tvm import ir, tirx

from ...analysis.iteration_space import Node, Space
from ...device import LINE_BYTES, Device
from ...kernel_ir.expr import Tensor, dtype_bytes
from ..emit.expr import INDEX

_LLVM_TYPES = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64"}
_SFENCE = "stitch_sfence"
_REGISTERS = (1, 2, 4, 8)  # that one call may store

# Streamed are results larger than L3, and of a third of it where they do not stay there: what the
# kernel moves is about as much as fits, and it does little with each byte. Attention takes 1 to 5 %
# less, with what follows it -1 to 4, a 1x1 convolution of 64 channels 6. Products of many steps
# wait for no line that they write.
_MOVED, _LEFT = 0.9, 1 / 3  # of L3
_MOST_STEPS = 48  # for each byte that is moved


def streamed_results(space: Space, device: Device) -> tuple[Tensor, ...]:
    """Return the outputs that no cache will hold and that the kernel does not read again."""
    if device.vector_bytes < 32:
        return ()
    least, moved = device.l3_bytes, sum(p.bytes for p in space.kernel.touched)
    steps = sum(n.stage.domain for n in space.nodes)
    if moved >= _MOVED * device.l3_bytes and steps <= _MOST_STEPS * moved:
        least *= _LEFT
    read = {id(ld.tensor) for s in space.kernel.stages for ld in s.loads()}
    return tuple(
        t
        for t in space.kernel.outputs
        if t.bytes >= least
        and id(t) not in read
        and t.dtype in _LLVM_TYPES
        and _begins_lines(space.producer(t))
    )


def _begins_lines(node: Node) -> bool:
    """Return whether each row of a result begins a line of the cache.

    A line that is in part streamed is written twice: softmax of rows of 392 elements took 1.4 times
    as long, LayerNorm of 1001 1.15 times (Zen 4).
    """
    line = LINE_BYTES // dtype_bytes(node.stage.out.dtype)
    steps = (abs(node.store.stride(a) or 0) for a in node.spatial if a.extent > 1)
    return all(step == 1 or step % line == 0 for step in steps)


def import_code(body: tirx.Stmt, tensors: tuple[Tensor, ...], vector_bytes: int) -> tirx.Stmt:
    """Return `body` with the store functions of these tensors' dtypes in reach."""
    parts = [f"define void @{_SFENCE}() {{\n  call void @llvm.x86.sse.sfence()\n  ret void\n}}"]
    for dtype in sorted({t.dtype for t in tensors}):
        parts += [_store_code(dtype, vector_bytes, registers) for registers in _REGISTERS]
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
