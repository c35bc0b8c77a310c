"""ResNet-50 and MobileNetV2 as torchvision's models export, batch norms apart or folded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from zoo.graph import Dim, Graph
from zoo.layers import conv, gemm, max_pool
from zoo.weights import numpy_dtype, seeded

EPS = 1e-5
RESNET50_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride
MOBILENETV2_STAGES = (  # expansion, channels, blocks, stride
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class ConvBatchNorm:
    """Writes Conv + BatchNormalization, or one Conv with the same statistics folded into it."""

    def __init__(self, g: Graph, folded: bool) -> None:
        self.g, self.folded = g, folded

    def __call__(
        self,
        x: str,
        names: tuple[str, str],
        channels: tuple[int, int],
        *,
        kernel: int = 1,
        stride: int = 1,
        group: int = 1,
        scale: float = 1.0,
    ) -> str:
        """`names`: prefixes of convolution and batch norm; `scale`: the latter's mean gain."""
        g, (conv_name, norm_name), (inner, outer) = self.g, names, channels
        shape = (outer, inner // group, kernel, kernel)
        std = (2.0 / (shape[1] * kernel**2)) ** 0.5
        geometry = {
            "kernel": (kernel, kernel),
            "stride": (stride, stride),
            "pad": (kernel // 2, kernel // 2),
            "group": group,
        }
        statistics = {  # mean and deviation of each
            "weight": (scale, 0.1 * scale),
            "bias": (0.0, 0.1),
            "running_mean": (0.0, 0.1),
            "running_var": (1.0, 0.1),
        }
        if not self.folded:
            y = conv(g, x, g.weight(f"{conv_name}weight", shape, std=std), None, **geometry)
            operands = [
                g.weight(f"{norm_name}{part}", (outer,), mean=mean, std=deviation)
                for part, (mean, deviation) in statistics.items()
            ]
            return g.op("BatchNormalization", y, *operands, epsilon=EPS, momentum=0.9)
        gain, shift, mean, variance = (
            seeded(f"{norm_name}{part}", (outer,), *statistics[part], g.seed) for part in statistics
        )
        gain /= np.sqrt(variance + EPS)
        weight = seeded(f"{conv_name}weight", shape, 0.0, std, g.seed) * gain[:, None, None, None]
        kind = numpy_dtype(g.dtype)
        folded_weight = g.initializer(f"{conv_name}weight", weight.astype(kind))
        folded_bias = g.initializer(f"{conv_name}bias", (shift - mean * gain).astype(kind))
        return conv(g, x, folded_weight, folded_bias, **geometry)


def resnet50(
    *,
    layers: int = 16,
    batch: int = 1,
    image: int = 224,
    classes: int = 1000,
    folded: bool = False,
    dynamic: bool = False,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """ResNet-50, or its first `layers` bottleneck blocks and the head; batch may be symbolic."""
    g = Graph("resnet50", dtype, opset, seed)
    size: Dim = g.symbol("batch", batch) if dynamic else batch
    conv_bn = ConvBatchNorm(g, folded)
    x = g.input("input", (size, 3, image, image))
    x = g.op("Relu", conv_bn(x, ("conv1.", "bn1."), (3, 64), kernel=7, stride=2))
    x = max_pool(g, x, (3, 3), (2, 2), (1, 1))
    channels = 64
    for stage, block, width, stride in _first(RESNET50_STAGES, layers):
        prefix = f"layer{stage + 1}.{block}."
        with g.scope(prefix.rstrip(".").replace(".", "/")):
            names = [(f"{prefix}conv{i}.", f"{prefix}bn{i}.") for i in (1, 2, 3)]
            y = g.op("Relu", conv_bn(x, names[0], (channels, width)))
            y = g.op("Relu", conv_bn(y, names[1], (width, width), kernel=3, stride=stride))
            y = conv_bn(y, names[2], (width, 4 * width), scale=0.3)
            if block == 0:
                names = (f"{prefix}downsample.0.", f"{prefix}downsample.1.")
                x = conv_bn(x, names, (channels, 4 * width), stride=stride)
            x, channels = g.op("Relu", g.op("Add", y, x)), 4 * width
    return _classify(g, x, "fc.", channels, (size, classes))


def mobilenetv2(
    *,
    layers: int = 17,
    batch: int = 1,
    image: int = 224,
    classes: int = 1000,
    folded: bool = False,
    dynamic: bool = False,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """MobileNetV2, or its first `layers` inverted residuals and the head; batch may be symbolic."""
    g = Graph("mobilenetv2", dtype, opset, seed)
    size: Dim = g.symbol("batch", batch) if dynamic else batch
    conv_bn = ConvBatchNorm(g, folded)

    def relu6(x: str) -> str:
        return g.op("Clip", x, g.constant(0.0), g.constant(6.0))

    x = g.input("input", (size, 3, image, image))
    x = relu6(conv_bn(x, ("features.0.0.", "features.0.1."), (3, 32), kernel=3, stride=2))
    channels, number = 32, 0
    stages = [(width, blocks, stride) for _, width, blocks, stride in MOBILENETV2_STAGES]
    for number, (stage, _, width, stride) in enumerate(_first(stages, layers), 1):
        inner = channels * MOBILENETV2_STAGES[stage][0]
        prefix = f"features.{number}.conv."
        with g.scope(f"features.{number}"):
            y, part = x, 0
            if inner != channels:
                names = (f"{prefix}0.0.", f"{prefix}0.1.")
                y, part = relu6(conv_bn(y, names, (channels, inner))), 1
            names = (f"{prefix}{part}.0.", f"{prefix}{part}.1.")
            y = conv_bn(y, names, (inner, inner), kernel=3, stride=stride, group=inner)
            names = (f"{prefix}{part + 1}.", f"{prefix}{part + 2}.")
            y = conv_bn(relu6(y), names, (inner, width))
            x = g.op("Add", x, y) if stride == 1 and width == channels else y
            channels = width
    names = (f"features.{number + 1}.0.", f"features.{number + 1}.1.")
    x = relu6(conv_bn(x, names, (channels, 1280)))
    return _classify(g, x, "classifier.1.", 1280, (size, classes))


def _first(stages: Sequence[tuple[int, int, int]], layers: int) -> list[tuple[int, int, int, int]]:
    """Return (stage, block, width, stride) of the first `layers` blocks."""
    blocks = [
        (number, block, width, stride if block == 0 else 1)
        for number, (width, count, stride) in enumerate(stages)
        for block in range(count)
    ]
    return blocks[:layers]


def _classify(
    g: Graph, x: str, prefix: str, channels: int, dims: tuple[Dim, int]
) -> onnx.ModelProto:
    flat = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    g.output(gemm(g, flat, prefix, channels, dims[1]), "output", dims)
    return g.model()
