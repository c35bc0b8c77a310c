"""CRNN text recognisers: convolutions, height collapse, then a linear per step or LSTMs."""

from __future__ import annotations

from typing import NamedTuple

import onnx

from zoo.graph import Graph
from zoo.layers import conv, gemm, max_pool
from zoo.recurrent import recurrent_layer


class _Stage(NamedTuple):
    """One convolution of CRNN, ReLU, and the pooling after it (kernel, stride, padding)."""

    channels: int
    kernel: int = 3
    norm: bool = False
    pool: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] | None = None


HALVE = ((2, 2), (2, 2), (0, 0))
HALVE_HEIGHT = ((2, 2), (2, 1), (0, 1))
STAGES = (
    _Stage(64, pool=HALVE),
    _Stage(128, pool=HALVE),
    _Stage(256, norm=True),
    _Stage(256, pool=HALVE_HEIGHT),
    _Stage(512, norm=True),
    _Stage(512, pool=HALVE_HEIGHT),
    _Stage(512, kernel=2, norm=True),
)


def crnn_like(
    *,
    layers: int = 7,
    batch: int = 1,
    height: int = 32,
    width: int = 100,
    hidden: int = 256,
    classes: int = 37,
    lstm: bool = False,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """Grey image (batch, 1, height, width) to log-probabilities (steps, batch, classes).

    `layers` convolutions; what height they leave is averaged away. With `lstm` two bidirectional
    LSTMs follow, as in the paper, else a linear per step.
    Source of the stack: Shi, Bai, Yao, "An end-to-end trainable neural network for image-based
    sequence recognition", 2015.
    """
    g = Graph("crnn_like", dtype, opset, seed)
    x, channels, columns = g.input("image", (batch, 1, height, width)), 1, width
    for i, stage in enumerate(STAGES[:layers]):
        with g.scope(f"cnn.{i}"):
            x = _convolve(g, x, f"cnn.conv{i}.", channels, stage)
            pad = 1 if stage.kernel == 3 else 0
            channels, columns = stage.channels, columns + 2 * pad - stage.kernel + 1
            if stage.pool:
                kernel, stride, padding = stage.pool
                x = max_pool(g, x, kernel, stride, padding)
                columns = (columns + 2 * padding[1] - kernel[1]) // stride[1] + 1
    x = g.reduce("ReduceMean", x, (2,), keepdims=False)
    x = g.op("Transpose", x, perm=(2, 0, 1))
    if lstm:
        sizes = (columns, batch)
        x = recurrent_layer(g, "LSTM", x, "rnn.0.", sizes, channels, hidden, 2)
        x = recurrent_layer(g, "LSTM", x, "rnn.1.", sizes, 2 * hidden, hidden, 2)
        hidden *= 2
    else:
        x = g.op("Tanh", _per_step(g, x, "rnn.0.", (columns, batch), (channels, hidden)))
    x = _per_step(g, x, "rnn.2." if lstm else "rnn.1.", (columns, batch), (hidden, classes))
    dims = (columns, batch, classes)
    g.output(g.op("LogSoftmax", x, axis=2), "log_probabilities", dims)
    return g.model()


def _convolve(g: Graph, x: str, prefix: str, channels: int, stage: _Stage) -> str:
    shape = (stage.channels, channels, stage.kernel, stage.kernel)
    weight = g.weight(f"{prefix}weight", shape, std=(2.0 / (channels * stage.kernel**2)) ** 0.5)
    bias = g.weight(f"{prefix}bias", (stage.channels,), std=0.1)
    pad = (1, 1) if stage.kernel == 3 else (0, 0)
    y = conv(g, x, weight, bias, kernel=(stage.kernel, stage.kernel), pad=pad)
    if stage.norm:
        means = (("weight", 1.0), ("bias", 0.0), ("mean", 0.0), ("var", 1.0))
        operands = [
            g.weight(f"{prefix}bn.{part}", (stage.channels,), mean=mean, std=0.1)
            for part, mean in means
        ]
        y = g.op("BatchNormalization", y, *operands, epsilon=1e-5)
    return g.op("Relu", y)


def _per_step(g: Graph, x: str, prefix: str, dims: tuple[int, int], size: tuple[int, int]) -> str:
    """(steps, batch, rows) to (steps, batch, columns): Reshape, Gemm, Reshape."""
    flat = g.reshape(x, (dims[0] * dims[1], size[0]))
    return g.reshape(gemm(g, flat, prefix, *size), (*dims, size[1]))
