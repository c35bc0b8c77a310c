"""Give a model's weights the layout that its kernels read."""

from __future__ import annotations

import dataclasses

from tvm.ir import IRModule

from relay_passes.transform import ChannelsLast, PackWeights, PointwiseProducts, Sequential
from tir_schedules.device import Device
from tvm_stitch.frontend.fold_weights import fold_weights
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.frontend.to_relax import aligned
from tvm_stitch.prepare import prepare_weights

# Of the weights' bytes: with the folds' `DUPLICATE_SHARE` and the code, a file may have 20 % more.
_PADDING_SHARE = 0.13


def packed(model: ImportedModel, device: Device) -> ImportedModel:
    """Return the model with convolutions channels last and weights in panels, for `device`."""
    pack = PackWeights(device, prepares=True, arrays=model.weights)
    mod = Sequential([PointwiseProducts(device), ChannelsLast(), pack])(model.mod)
    main, weights = fold_weights(mod["main"], len(model.inputs), model.weights, _PADDING_SHARE)
    others = {v: f for v, f in mod.functions_items() if v.name_hint != "main"}
    mod, prepared = prepare_weights(IRModule({**others, "main": main}))
    return dataclasses.replace(
        model, mod=mod, weights=tuple(aligned(array) for array in weights), prepared=prepared
    )
