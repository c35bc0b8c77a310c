"""Images through timm: the smallest member of each family, with few blocks where it takes that."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial

from torch import nn

from wild import torchvision_ops
from wild.architecture import Architecture
from wild.values import images

CLASSES = 10
Options = Mapping[str, object]


def _named(name: str, size: int = 64, **options: object) -> Architecture:
    """Describe `timm.create_model(name)`."""
    return Architecture("timm", partial(_create, name, options), {"x": images(1, size)})


def _sized(name: str, size: int = 64, **options: object) -> Architecture:
    """Describe a named model that is built for one size of image."""
    return _named(name, size, img_size=size, **options)


def _made(where: str, size: int = 64, **options: object) -> Architecture:
    """Describe a class of `timm.models`, whose named models fix what `options` make small."""
    return Architecture("timm", partial(_instance, where, options), {"x": images(1, size)})


def _create(name: str, options: Options) -> nn.Module:
    torchvision_ops.declare()
    import timm

    return timm.create_model(name, pretrained=False, num_classes=CLASSES, **options)


def _instance(where: str, options: Options) -> nn.Module:
    return _attribute(where)(num_classes=CLASSES, **options)


def _attribute(where: str) -> object:
    torchvision_ops.declare()
    module, _, name = where.partition(".")
    return getattr(importlib.import_module(f"timm.models.{module}"), name)


def _mvitv2() -> nn.Module:
    cfg = _attribute("mvitv2.MultiScaleVitCfg")
    config = cfg(depths=(1, 1, 1, 1), embed_dim=16, num_heads=1, stride_kv_adaptive=(2, 2))
    return _attribute("mvitv2.MultiScaleVit")(config, img_size=(64, 64), num_classes=CLASSES)


def _metaformer(mixers: tuple[str, ...], norms: tuple[str, ...]) -> nn.Module:
    return _attribute("metaformer.MetaFormer")(
        num_classes=CLASSES,
        depths=(1, 1, 1, 1),
        dims=(16, 32, 32, 64),
        token_mixers=[_attribute(f"metaformer.{mixer}") for mixer in mixers],
        norm_layers=[_attribute(f"metaformer.{norm}") for norm in norms],
    )


def _mixer(block: str, mlp: str = "Mlp", **options: object) -> nn.Module:
    torchvision_ops.declare()
    import timm.layers

    return _attribute("mlp_mixer.MlpMixer")(
        num_classes=CLASSES,
        img_size=64,
        num_blocks=2,
        embed_dim=64,
        block_layer=_attribute(f"mlp_mixer.{block}"),
        mlp_layer=getattr(timm.layers, mlp),
        **options,
    )


PIXELS = {"x": images(1, 64)}
CAFORMER = ("SepConv", "SepConv", "Attention", "Attention")
CAFORMER_NORMS = (*("LayerNorm2dNoBias",) * 2, *("LayerNormNoBias",) * 2)

TIMM: dict[str, Architecture] = {
    "efficientnet": _named("efficientnet_b0"),
    "mobilenetv3": _named("mobilenetv3_small_050"),
    "mixer": Architecture("timm", partial(_mixer, "MixerBlock"), PIXELS),
    "resmlp": Architecture("timm", partial(_mixer, "ResBlock", mlp_ratio=4), PIXELS),
    "gmlp": Architecture(
        "timm", partial(_mixer, "SpatialGatingBlock", "GatedMlp", mlp_ratio=6), PIXELS
    ),
    "maxvit": _sized("test_maxvit"),
    "coatnet": _sized("test_coatnet"),
    "xcit": _named("xcit_nano_12_p8_224", depth=2, embed_dim=64),
    "davit": _named("davit_tiny", depths=(1, 1), embed_dims=(32, 64), num_heads=(2, 4)),
    "levit_timm": _sized(
        "levit_128s", embed_dim=(32, 48, 64), num_heads=(2, 3, 4), depth=(1, 1, 1)
    ),
    "coat": _sized("coat_lite_tiny", serial_depths=[1, 1, 1, 1], embed_dims=[16, 24, 32, 40]),
    "coat_mini": _sized("coat_mini", serial_depths=[1, 1, 1, 1], parallel_depth=1),
    "regnetx": _named("regnetx_002"),
    "regnety": _named("regnety_002"),
    "densenet": _named("densenet121", block_config=(2, 2, 2, 2), growth_rate=16),
    "hrnet": _named("hrnet_w18_small"),
    "nfnet": _named("test_nfnet"),
    "repvgg": _named("repvgg_a0"),
    "volo": _made(
        "volo.VOLO",
        img_size=64,
        layers=[1, 1, 1, 1],
        embed_dims=[32, 64, 64, 64],
        num_heads=[2, 4, 4, 4],
        stem_hidden_dim=16,
    ),
    "poolformer_timm": Architecture(
        "timm", partial(_metaformer, ("Pooling",) * 4, ("GroupNorm1NoBias",) * 4), PIXELS
    ),
    "caformer": Architecture("timm", partial(_metaformer, CAFORMER, CAFORMER_NORMS), PIXELS),
    "gcvit": _made("gcvit.GlobalContextVit", 128, img_size=128, depths=(1, 1, 1, 1), embed_dim=16),
    "edgenext": _named("edgenext_xx_small", depths=(1, 1, 1, 1), dims=(16, 32, 32, 64)),
    "fastvit": _named("fastvit_s12", layers=(1, 1, 1, 1), embed_dims=(16, 32, 32, 64)),
    "convmixer": _made("convmixer.ConvMixer", dim=32, depth=2),
    "cait": _sized("cait_xxs24_224", depth=2, embed_dim=64),
    "crossvit": _made(
        "crossvit.CrossVit",
        img_size=64,
        embed_dim=(32, 64),
        depth=((1, 2, 1),),
        num_heads=(2, 4),
        patch_size=(8, 16),
    ),
    "pit": _sized("pit_ti_224"),
    "twins": _sized("twins_svt_small", depths=[1, 1, 2, 1], embed_dims=[16, 32, 32, 64]),
    "nest": _made(
        "nest.Nest", img_size=64, depths=(1, 1, 1), embed_dims=(32, 32, 64), num_heads=(1, 2, 4)
    ),
    "eva02": _sized("eva02_tiny_patch14_224", 56, depth=2, embed_dim=64, num_heads=4),
    "dla": _named("dla46_c"),
    "ghostnet": _named("ghostnet_050"),
    "res2net": _named("res2net50_26w_4s", layers=(1, 1, 1, 1)),
    "resnest": _named("resnest14d"),
    "seresnet": _named("seresnet18"),
    "skresnet": _named("skresnet18"),
    "rexnet": _named("rexnet_100"),
    "vovnet": _named("ese_vovnet19b_slim_dw"),
    "mvitv2": Architecture("timm", _mvitv2, PIXELS),
    "tiny_vit": _made(
        "tiny_vit.TinyVit",
        embed_dims=(16, 32, 32, 64),
        depths=(1, 1, 1, 1),
        num_heads=(1, 2, 2, 4),
        window_sizes=(4, 4, 4, 2),
    ),
    "inception_next": _named("inception_next_atto", depths=(1, 1, 1, 1)),
    "efficientvit": _named("efficientvit_b0"),
    "efficientvit_m0": _sized("efficientvit_m0"),
    "repvit": _named("repvit_m0_9"),
    "starnet": _named("starnet_s050"),
    "mambaout": _named("test_mambaout"),
    "sequencer": _sized("sequencer2d_s", layers=(1, 1, 1, 1), embed_dims=(32, 32, 32, 32)),
    "tnt": _sized("tnt_s_patch16_224", depth=2),
    "xception": _named("xception41"),
    "cspdarknet": _named("cspdarknet53"),
    "lambda_resnet": _named("lambda_resnet26t", 128),
    "halonet": _named("halonet26t", 256),
    "botnet": _sized("botnet26t_256", 128),
    "visformer": _sized("visformer_tiny"),
    "vit_relpos": _sized("test_vit_relpos"),
    "convnext_timm": _named("test_convnext"),
    "evonorm": _named("test_efficientnet_evos"),
}
