"""Give a model's weights the layout that its kernels read."""

from __future__ import annotations

import dataclasses

from tvm.ir import IRModule
from tvm.target import Target

from relay_passes.transform import ChannelsLast, PackWeights, PointwiseProducts, Sequential
from tvm_stitch.frontend.fold_weights import fold_weights
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.frontend.to_relax import aligned


def packed(model: ImportedModel, target: Target) -> ImportedModel:
    """Return the model with convolutions channels last and weights in panels, for `target`."""
    pack = PackWeights()
    with target:
        mod = Sequential([PointwiseProducts(), ChannelsLast(), pack])(model.mod)
    count, growth = len(model.inputs), pack.grown_bytes
    main, weights = fold_weights(mod["main"], count, model.weights, growth_bytes=growth)
    others = {v: f for v, f in mod.functions_items() if v.name_hint != "main"}
    return dataclasses.replace(
        model,
        mod=IRModule({**others, "main": main}),
        weights=tuple(aligned(array) for array in weights),
    )
