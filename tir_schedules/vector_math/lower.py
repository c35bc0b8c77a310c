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


def lower(
    node: Expr | tirx.Stmt | tirx.PrimFunc, scalef: bool = False
) -> Expr | tirx.Stmt | tirx.PrimFunc:
    """Replace every call in `FUNCTIONS` by selects, shifts and fused multiply-adds.

    rewrite: T.exp(x) -> T.Let(..., where={x: ..., n: ..., r: ...})   # float32
             T.exp(h) -> T.Cast("float16", exp(T.Cast("float32", h)))   # float16, bfloat16
             T.exp(d) -> T.exp(d)                                       # float64 stays libm's
    In a statement or PrimFunc the Lets become local buffers at once; a kernel put together from
    lowered expressions needs `materialise_lets` (which says why) before it is compiled.
    `scalef` may be set for a target with AVX-512.
    Results are within 4 ulp of the correctly rounded value, and exact at 0, +-inf, NaN, overflow
    and underflow (scripts/sweep_vector_math.py), with or without fused multiply-add; pow needs it.
    """
    rewrite = functools.partial(_rewrite, scalef=scalef)
    lowered = tvm_ffi.structural_map(node, [(Call, rewrite)], order="post")
    kernel = isinstance(node, tirx.Stmt | tirx.PrimFunc)
    return materialise_lets(lowered) if kernel else lowered


def _rewrite(call: Call, scalef: bool) -> Expr:
    if not isinstance(call.op, Op) or call.op.name.rpartition(".")[2] not in FUNCTIONS:
        return call
    dtype = str(call.ty.dtype)
    if dtype != "float32" and dtype not in _HALF:
        return call
    lets = Bindings(scalef)
    args = [arg if dtype == "float32" else tirx.Cast("float32", arg) for arg in call.args]
    result = lets.close(FUNCTIONS[call.op.name.rpartition(".")[2]](lets, *args))
    return result if dtype == "float32" else tirx.Cast(dtype, result)
