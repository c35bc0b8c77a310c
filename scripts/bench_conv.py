"""Time every distinct convolution of ResNet-50 and MobileNetV2 against oneDNN and MLAS.

python scripts/bench_conv.py --names resnet50,mobilenetv2    # docs/results/bench_conv.{json,md}
python scripts/bench_conv.py --names resnet50 --threads 1
python scripts/bench_conv.py --names other --output others   # groups, dilated, transposed, 1-D, 3-D
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import onnx
import zoo
from bench_compute import Case, run
from zoo.graph import Graph

BATCHES = (1, 8)


@dataclass(frozen=True)
class Geometry:
    """Sizes of one convolution, batch left out; a transposed one's strides spread the image."""

    channels: tuple[int, int]  # in, out
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    group: int
    dilation: int = 1
    transposed: bool = False

    def __str__(self) -> str:
        image, kernel = ("x".join(map(str, each)) for each in (self.image, self.kernel))
        text = f"{self.channels[0]}->{self.channels[1]}, {image}, {kernel}/{self.strides[0]}"
        text += f", {self.group} groups" if self.group > 1 else ""
        text += f", dilated by {self.dilation}" if self.dilation > 1 else ""
        return f"{text}, transposed" if self.transposed else text

    @property
    def made(self) -> tuple[int, ...]:
        """The image that comes out."""
        rank = len(self.image)
        windows = ((k - 1) * self.dilation + 1 for k in self.kernel)
        pads = map(sum, zip(self.pads[:rank], self.pads[rank:], strict=True))
        axes = zip(self.image, windows, self.strides, pads, strict=True)
        if self.transposed:
            return tuple((i - 1) * s + k - padded for i, k, s, padded in axes)
        return tuple((i + padded - k) // s + 1 for i, k, s, padded in axes)

    def flops(self, batch: int) -> int:
        each = math.prod(self.channels) // self.group * math.prod(self.kernel)
        return 2 * batch * math.prod(self.image if self.transposed else self.made) * each

    def model(self, batch: int) -> onnx.ModelProto:
        g = Graph("convolution")
        inner, outer = self.channels
        x = g.input("x", (batch, inner, *self.image))
        first, second = (inner, outer) if self.transposed else (outer, inner)
        weight = g.weight("w", (first, second // self.group, *self.kernel))
        attributes = {"strides": self.strides, "pads": self.pads, "group": self.group}
        attributes["dilations"] = [self.dilation] * len(self.kernel)
        op = "ConvTranspose" if self.transposed else "Conv"
        y = g.op(op, x, weight, g.weight("b", (outer,)), **attributes)
        g.output(y, "y", (batch, outer, *self.made))
        return g.model()


OTHERS = (
    Geometry((128, 128), (56, 56), (3, 3), (1, 1), (1,) * 4, 32),  # ResNeXt-50 32x4d
    Geometry((512, 512), (14, 14), (3, 3), (1, 1), (1,) * 4, 32),
    Geometry((144, 144), (28, 28), (3, 3), (1, 1), (1,) * 4, 6),  # RegNetX
    Geometry((272, 272), (28, 28), (1, 1), (1, 1), (0,) * 4, 4),  # ShuffleNet
    Geometry((96, 256), (27, 27), (5, 5), (1, 1), (2,) * 4, 2),  # AlexNet
    Geometry((96, 96), (56, 56), (7, 7), (1, 1), (3,) * 4, 96),  # ConvNeXt-T
    Geometry((64, 64), (113, 113), (3, 3), (2, 2), (0,) * 4, 64),  # stepped, no padding
    Geometry((1, 512), (16000,), (10,), (5,), (0, 0), 1),  # wav2vec 2.0
    Geometry((256, 256), (500,), (31,), (1,), (15, 15), 256),  # Conformer
    Geometry((64, 64), (8, 56, 56), (3, 3, 3), (1, 1, 1), (1,) * 6, 1),  # R3D-18
    Geometry((3, 768), (224, 224), (16, 16), (16, 16), (0,) * 4, 1),  # ViT-B/16
    Geometry((64, 63), (56, 56), (3, 3), (1, 1), (1,) * 4, 1),  # channels that fill no registers
    Geometry((64, 3), (112, 112), (9, 9), (1, 1), (4,) * 4, 1),  # an image made
    Geometry((128, 3), (128, 128), (3, 3), (1, 1), (1,) * 4, 1),  # an autoencoder's last
    Geometry((32, 1), (16000,), (7,), (1,), (3, 3), 1),  # HiFi-GAN's last
    Geometry((256, 256), (28, 28), (3, 3), (1, 1), (2,) * 4, 1, dilation=2),  # DeepLab v3
    Geometry((2048, 256), (33, 33), (3, 3), (1, 1), (12,) * 4, 1, dilation=12),  # its pyramid
    Geometry((64, 128), (4000,), (2,), (1,), (8, 0), 1, dilation=8),  # WaveNet
    Geometry((512, 256), (8, 8), (4, 4), (2, 2), (1,) * 4, 1, transposed=True),  # DCGAN
    Geometry((64, 3), (32, 32), (4, 4), (2, 2), (1,) * 4, 1, transposed=True),  # its last
    Geometry((128, 64), (56, 56), (2, 2), (2, 2), (0,) * 4, 1, transposed=True),  # U-Net
)


def geometries(model: onnx.ModelProto) -> Iterator[Geometry]:
    """Return each distinct convolution of a model, in order of first use."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = [*inferred.input, *inferred.value_info]
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    weights = {w.name: tuple(w.dims) for w in inferred.initializer}
    found: dict[Geometry, None] = {}
    for node in inferred.node:
        if node.op_type != "Conv":
            continue
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        _, inner, *image = shapes[node.input[0]]
        outer, _, *kernel = weights[node.input[1]]
        strides = tuple(given.get("strides", [1] * len(kernel)))
        pads = tuple(given.get("pads", [0] * 2 * len(kernel)))
        sizes = (tuple(image), tuple(kernel), strides, pads, given.get("group", 1))
        found[Geometry((inner, outer), *sizes)] = None
    return iter(found)


def cases() -> Iterator[Case]:
    for name in ("resnet50", "mobilenetv2"):
        for geometry in geometries(zoo.model(name)):
            for batch in BATCHES:
                make = partial(geometry.model, batch)
                yield Case(name, f"{batch} x {geometry}", geometry.flops(batch), make)
    for geometry in OTHERS:
        make = partial(geometry.model, 1)
        yield Case("other", f"1 x {geometry}", geometry.flops(1), make)


if __name__ == "__main__":
    run("bench_conv", "Convolutions", __doc__.partition("\n")[0], list(cases()))
