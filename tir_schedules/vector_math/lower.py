"""Rewrite math calls in a TIR expression into arithmetic that LLVM vectorises."""

import functools
from collections.abc import Callable

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr, Op

from .bindings import Bindings
from .erf import erf
from .exponential import exp, exp2
from .logarithm import log, log1p, log2, log10
from .materialise import materialise_lets
from .power import power
from .root import rsqrt
from .sigmoid import sigmoid
from .tanh import tanh

# TVM keeps some of these operators in `tirx`, some in `prim`.
FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "erf": erf,
    "exp": exp,
    "exp2": exp2,
    "log": log,
    "log10": log10,
    "log1p": log1p,
    "log2": log2,
    "pow": power,
    "rsqrt": rsqrt,
    "sigmoid": sigmoid,
    "tanh": tanh,
}
_HALF = ("float16", "bfloat16")
# Of float64 TVM makes a tanh that is 0 below 1e-16; sinh and cosh it has for no dtype.
_LIBM = {"float64": ("tanh", "sinh", "cosh"), "float32": ("sinh", "cosh")}


def lower(
    node: Expr | tirx.Stmt | tirx.PrimFunc, scalef: bool = False, never_above_zero: bool = False
) -> Expr | tirx.Stmt | tirx.PrimFunc:
    """Replace every call in `FUNCTIONS` by selects, shifts and fused multiply-adds.

    rewrite: T.exp(x) -> T.Let(..., where={x: ..., n: ..., r: ...})   # float32
             T.exp(h) -> T.Cast("float16", exp(T.Cast("float32", h)))   # float16, bfloat16
             T.exp(d) -> T.exp(d)                                       # float64 stays libm's
             T.tanh(d) -> llvm.tanh(d)                                  # which calls libm
    In a statement or PrimFunc the Lets become local buffers at once; a kernel put together from
    lowered expressions needs `materialise_lets` (which says why) before it is compiled.
    `scalef` may be set for a target with AVX-512, `never_above_zero` where all arguments are so.
    Results are within 4 ulp of the correctly rounded value, and exact at 0, +-inf, NaN, overflow
    and underflow (scripts/sweep_vector_math.py), with or without fused multiply-add; pow needs it.
    Of both together, exp(x) is within (4 + 0.62 |x|) 2**-23 of itself.
    """
    known = functools.partial(Bindings, scalef, never_above_zero)
    rewrite = functools.partial(_rewrite, bindings=known)
    lowered = tvm_ffi.structural_map(node, [(Call, rewrite)], order="post")
    kernel = isinstance(node, tirx.Stmt | tirx.PrimFunc)
    return materialise_lets(lowered) if kernel else lowered


def _rewrite(call: Call, bindings: Callable[[], Bindings]) -> Expr:
    if not isinstance(call.op, Op):
        return call
    name, dtype = call.op.name.rpartition(".")[2], str(call.ty.dtype)
    wide = "float32" if dtype in _HALF else dtype
    args = [arg if wide == dtype else tirx.Cast(wide, arg) for arg in call.args]
    if name in _LIBM.get(wide, ()):
        result = tirx.call_llvm_pure_intrin(wide, f"llvm.{name}", *args)
    elif name in FUNCTIONS and wide == "float32":
        lets = bindings()
        result = lets.close(FUNCTIONS[name](lets, *args))
    else:
        return call
    return result if wide == dtype else tirx.Cast(dtype, result)
