"""max and min that keep NaN, as vector expressions; TVM's own drop a NaN that is not last.

What ONNX Runtime 1.31 gives (CPU, float32, float16; float64 where it has the kernel):
- Relu(NaN) = NaN; Clip(NaN) = NaN with any bounds, a NaN bound is ignored;
- Max(NaN, 1) = Max(1, NaN) = NaN and the same for Min, scalar operands and three operands too;
- Relu(-0) = -0; Max and Min of zeros of both signs keep the first (float64: the second);
- ReduceMax and ReduceMin return NaN only if the NaN is the first element, otherwise ignore it;
- MaxPool and GlobalMaxPool ignore NaN or not by its position (float32: NaN in the last element of
  the window gives NaN), and give -3.4028235e38 for a float32 window of -inf;
- Softmax and LogSoftmax of a row of -inf, with an inf, or with a NaN are NaN over the whole row;
  ReduceMax of -inf is -inf.
`nan_max` and `nan_min` always give NaN when either operand is one, so reductions built on them do
not depend on order: they agree with ONNX Runtime where it is consistent with itself.
"""

from tvm import tirx
from tvm.ir import Expr

from .bindings import INFINITY, Bindings, absolute

_HALF = ("float16", "bfloat16")


def nan_max(a: Expr, b: Expr) -> Expr:
    """Return max(a, b), NaN if either is NaN; plain max on integers."""
    return _extremum(a, b, tirx.GT) if _floating(a) else tirx.Max(a, b)


def nan_min(a: Expr, b: Expr) -> Expr:
    """Return min(a, b), NaN if either is NaN; plain min on integers."""
    return _extremum(a, b, tirx.LT) if _floating(a) else tirx.Min(a, b)


def _floating(x: Expr) -> bool:
    return str(x.ty.dtype).startswith(("float", "bfloat"))


def _extremum(a: Expr, b: Expr, before: type) -> Expr:
    """Return a if before(a, b) else b, or the NaN among them.

    x86's max and min return their second operand when either is NaN: a constant goes first and
    costs nothing more; otherwise `b` is tested (|b| <= inf becomes one compare), which in a
    reduction is the new value: a test of the accumulator would lengthen its chain.
    """
    dtype = str(a.ty.dtype)
    if dtype in _HALF:
        a, b = tirx.Cast("float32", a), tirx.Cast("float32", b)
        # Written out, not bound: of a Let of a bfloat16 TVM's BF16StorageLegalize widens the bits
        # as the integer that it is stored as.
        chosen = tirx.Select(before(b, a), b, a)
        return tirx.Cast(
            dtype, tirx.Select(absolute(b) <= tirx.FloatImm("float32", INFINITY), chosen, b)
        )
    if isinstance(b, tirx.FloatImm):
        a, b = b, a
    lets = Bindings()
    b = lets.let("b", b)
    if isinstance(a, tirx.FloatImm) and a.value == a.value:
        return lets.close(tirx.Select(before(a, b), a, b))
    a = lets.let("a", a)
    ordered = absolute(b) <= tirx.FloatImm(dtype, INFINITY)
    return lets.close(tirx.Select(ordered, tirx.Select(before(b, a), b, a), b))
