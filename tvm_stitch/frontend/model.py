"""What every importer returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tvm.ir import IRModule

from tvm_stitch.frontend.segments.leave import Left
from tvm_stitch.runtime.artifact import Prepared


@dataclass(frozen=True)
class TensorSpec:
    """One input or output: the model's own name, a static shape, NumPy's (or ml_dtypes') dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class ImportedModel:
    """A model as Relax, its weights beside it.

    `mod["main"]` takes the inputs, then one parameter per weight (attribute `num_input` counts the
    inputs), and returns a tensor or, as `ret_ty` says, a tuple (always one for several outputs).
    `weights` may be read-only views of the model's file; those behind them are `prepared` from them
    by PrimFuncs of `mod` when the model is loaded. `index_bounds[name]` is the inclusive range that
    values of an integer input must lie in because they index an axis. `origins`: by the name of a
    variable of `main`, the node of the user's model that makes its value, for `origin_of`.
    `left`: the nodes that ONNX Runtime runs. `narrow`: the type of inputs and outputs whose numbers
    within are of a wider one.
    """

    mod: IRModule
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    weights: tuple[np.ndarray, ...]
    prepared: tuple[Prepared, ...] = ()
    index_bounds: dict[str, tuple[int, int]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    narrow: dict[str, str] = field(default_factory=dict)
    left: tuple[Left, ...] = ()
