"""What a kernel computes that is written out of hand: a PrimFunc beside it, for who checks it."""

from __future__ import annotations

from tvm import ir, tirx

# A PrimFunc as TVM's JSON: scripts show no functions within attributes.
_REFERENCE = "tvm_stitch.reference"


def reference_of(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the function that says what a kernel computes; any other function itself."""
    text = func.attrs.get(_REFERENCE) if func.attrs else None
    return func if text is None else ir.load_json(str(text))


def with_reference(scheduled: tirx.PrimFunc, reference: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel that knows what it computes."""
    return scheduled.with_attr(_REFERENCE, ir.save_json(reference))
