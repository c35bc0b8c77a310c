"""Images through torchvision: classifiers, segmentation."""

from __future__ import annotations

from functools import partial

from torch import nn

from wild import torchvision_ops
from wild.architecture import Architecture
from wild.values import images


def _named(
    name: str,
    size: int = 64,
    outputs: tuple[str | int, ...] = (0,),
    argument: str = "x",
    **options: object,
) -> Architecture:
    build = partial(_build, name, options)
    return Architecture("torchvision", build, {argument: images(1, size)}, outputs)


def _classifier(name: str, size: int = 64, **options: object) -> Architecture:
    return _named(name, size, num_classes=10, **options)


def _segmenter(name: str, argument: str = "x") -> Architecture:
    return _named(name, 64, ("out",), argument, num_classes=5, weights_backbone=None)


def _build(name: str, options: dict[str, object]) -> nn.Module:
    torchvision_ops.declare()
    import torchvision

    return torchvision.models.get_model(name, weights=None, **options)


def _swin_v2() -> nn.Module:
    torchvision_ops.declare()
    from torchvision.models import swin_transformer as swin

    return swin.SwinTransformer(
        patch_size=[4, 4],
        embed_dim=32,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=[6, 6],
        num_classes=10,
        block=swin.SwinTransformerBlockV2,
        downsample_layer=swin.PatchMergingV2,
    )


def _maxvit() -> nn.Module:
    torchvision_ops.declare()
    from torchvision.models.maxvit import MaxVit

    return MaxVit(
        input_size=(64, 64),
        stem_channels=16,
        partition_size=4,
        block_channels=[16, 32],
        block_layers=[1, 1],
        head_dim=8,
        stochastic_depth_prob=0.0,
        num_classes=10,
    )


TORCHVISION: dict[str, Architecture] = {
    "resnet18": _classifier("resnet18"),
    "resnext50": _classifier("resnext50_32x4d"),
    "shufflenet": _classifier("shufflenet_v2_x0_5"),
    "squeezenet": _classifier("squeezenet1_1"),
    "inception": _classifier("inception_v3", 96, init_weights=False),
    "googlenet": _classifier("googlenet", init_weights=False),
    "mnasnet": _classifier("mnasnet0_5"),
    "mobilenet_v3_large": _classifier("mobilenet_v3_large"),
    "alexnet": _classifier("alexnet"),
    "swin_v2": Architecture("torchvision", _swin_v2, {"x": images(1, 64)}),
    "maxvit_torchvision": Architecture("torchvision", _maxvit, {"x": images(1, 64)}),
    "deeplab": _segmenter("deeplabv3_mobilenet_v3_large"),
    "fcn": _segmenter("fcn_resnet50"),
    "lraspp": _segmenter("lraspp_mobilenet_v3_large", "input"),
}
