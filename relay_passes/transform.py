"""Graph passes by name, with the two TVM classes that carry them."""

from tvm.ir.transform import PassContext, Sequential

from .fold_small import FoldSmallConstants
from .stitch_ops import StitchOps

__all__ = ["FoldSmallConstants", "PassContext", "Sequential", "StitchOps"]
