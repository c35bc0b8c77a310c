"""Graph passes by name, with the two TVM classes that carry them."""

from tvm.ir.transform import PassContext, Sequential

from .channels_last import ChannelsLast
from .fold_small import FoldSmallConstants
from .named_legalize import NamedLegalize
from .overwrite_operands import OverwriteOperands
from .pack_weights import PackWeights
from .plan_memory import PlanMemory
from .pointwise import PointwiseProducts
from .stitch_ops import StitchOps

__all__ = [
    "ChannelsLast",
    "FoldSmallConstants",
    "NamedLegalize",
    "OverwriteOperands",
    "PackWeights",
    "PassContext",
    "PlanMemory",
    "PointwiseProducts",
    "Sequential",
    "StitchOps",
]
