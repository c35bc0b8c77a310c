"""rsqrt as a true square root and a true division; sqrt itself is an instruction and stays."""

from tvm import tirx
from tvm.ir import Expr

from .bindings import Bindings, f32


def rsqrt(_lets: Bindings, x: Expr) -> Expr:
    """Return 1 / sqrt(x) of a float32 x: +-inf at +-0, 0 at inf, NaN below 0."""
    return f32(1.0) / tirx.sqrt(x)
