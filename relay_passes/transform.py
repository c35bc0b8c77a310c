"""Graph passes by name, with the two TVM classes that carry them."""

from tvm.ir.transform import PassContext, Sequential

from .fusion.stitch_ops import StitchOps
from .launches.capture import CaptureLaunches
from .launches.stage import StageTensors
from .memory.overwrite_operands import OverwriteOperands
from .memory.plan_memory import PlanMemory
from .recurrence.roll_loops import RollLoops
from .rewrites.channels_last import ChannelsLast
from .rewrites.einsum.products_of_einsum import ProductsOfEinsum
from .rewrites.fold_small import FoldSmallConstants
from .rewrites.legalize.block_scans import BlockScans
from .rewrites.legalize.named_legalize import NamedLegalize
from .rewrites.log_of_sums import LogOfSums
from .rewrites.pack_weights import PackWeights
from .rewrites.pointwise import PointwiseProducts
from .rewrites.sort_rows import SortRows
from .rewrites.widen_sorts import WidenSorts

__all__ = [
    "BlockScans",
    "CaptureLaunches",
    "ChannelsLast",
    "FoldSmallConstants",
    "LogOfSums",
    "NamedLegalize",
    "OverwriteOperands",
    "PackWeights",
    "PassContext",
    "PlanMemory",
    "PointwiseProducts",
    "ProductsOfEinsum",
    "RollLoops",
    "Sequential",
    "SortRows",
    "StageTensors",
    "StitchOps",
    "WidenSorts",
]
