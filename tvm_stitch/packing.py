"""Give a model's weights the layout that its kernels read."""

from __future__ import annotations

import dataclasses

from tvm.ir import IRModule

from relay_passes.policy import POLICY, LayoutPolicy
from relay_passes.transform import ChannelsLast, PackWeights, PointwiseProducts
from tir_schedules.device import Device
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.frontend.relax_graph.fold_weights import fold_weights
from tvm_stitch.frontend.to_relax import aligned
from tvm_stitch.prepare import prepare_weights
from tvm_stitch.steps import Step, Steps


def packed(
    model: ImportedModel,
    device: Device,
    policy: LayoutPolicy = POLICY.layout,
    steps: Steps | None = None,
) -> ImportedModel:
    """Return the model with convolutions channels last and weights in panels, for `device`."""
    packing = _Packing(model, policy.padding_share)
    mod = (steps or Steps()).run(packing.passes(device, policy), model.mod)
    weights = tuple(aligned(array) for array in packing.weights)
    return dataclasses.replace(model, mod=mod, weights=weights, prepared=packing.prepared)


class _Packing:
    """The passes that lay weights out, and the weights as they become."""

    def __init__(self, model: ImportedModel, padding: float) -> None:
        self._inputs, self._padding = len(model.inputs), padding
        self.weights, self.prepared = model.weights, ()

    def passes(self, device: Device, policy: LayoutPolicy) -> list[Step]:
        pack = PackWeights(device, prepares=True, arrays=self.weights, policy=policy)
        return [
            ("PointwiseProducts", PointwiseProducts(device, policy)),
            ("ChannelsLast", ChannelsLast()),
            ("PackWeights", pack),
            ("FoldWeights", self._fold),
            ("PrepareWeights", self._prepare),
        ]

    def _fold(self, mod: IRModule) -> IRModule:
        main, self.weights = fold_weights(mod["main"], self._inputs, self.weights, self._padding)
        others = {v: f for v, f in mod.functions_items() if v.name_hint != "main"}
        return IRModule({**others, "main": main})

    def _prepare(self, mod: IRModule) -> IRModule:
        mod, self.prepared = prepare_weights(mod)
        return mod
