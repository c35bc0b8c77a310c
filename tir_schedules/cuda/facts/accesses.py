"""How many neighbouring elements a thread can load or store at once."""

from __future__ import annotations

from ...analysis.iteration_space import Access, Atom, Node
from ...device.cuda import VECTOR_BYTES
from ...kernel_ir.expr import Expr, Load, dtype_bytes
from ...kernel_ir.sharing import open_children


def vector_width(access: Access, atom: Atom) -> int:
    """Return the most elements along `atom` that one access of a thread can move, a power of two.

    Memory begins at a multiple of 16 bytes, so what all strides are multiples of is aligned.
    """
    if access.opaque or access.strides.get(atom, 0) != 1 or access.tensor.dtype == "bool":
        return 1  # to TVM's CUDA code four bools are four shorts
    width = VECTOR_BYTES // dtype_bytes(access.tensor.dtype)
    others = [s for a, s in access.strides.items() if a is not atom]
    while width > 1 and any(n % width for n in (*others, access.const, atom.extent)):
        width //= 2
    return width


def always_read(node: Node) -> tuple[Load, ...]:
    """Return what a node reads at every point, whichever way its conditions go."""
    found: dict[Load, None] = {}
    stack: list[Expr] = [node.stage.value]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Load):
            found.setdefault(expr)
        stack.extend(open_children(expr))
    return tuple(found)


def is_affine(access: Access, node: Node) -> bool:
    """Return whether an access is an element of its tensor that strides lead to, at all points."""
    return not access.opaque and node.stays_inside(access)
