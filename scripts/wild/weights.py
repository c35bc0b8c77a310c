"""Random weights in place of the initial ones, of which many are zeros and ones."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn

NOISE = 0.1


@torch.no_grad()
def randomise(module: nn.Module, seed: int) -> nn.Module:
    """Draw every weight and running statistic anew, so that no branch of the module is hidden.

    Fresh modules scale residual branches by 0 or 1e-6, normalise with mean 0 and variance 1 and
    hold position biases of zero: a wrong kernel behind these changes nothing. Matrices keep the
    variance of what they multiply; vectors move from where they are by 0.1, ones by up to 0.5.
    """
    generator = Generator().manual_seed(seed)
    for name, weight in sorted(module.named_parameters()):
        if weight.is_floating_point() and weight.numel():
            weight.copy_(_weight(name, weight, generator))
    for name, buffer in sorted(module.named_buffers()):
        if name.endswith("running_mean"):
            buffer.copy_(torch.randn(buffer.shape, generator=generator) * NOISE)
        elif name.endswith("running_var"):
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    return module


def _weight(name: str, weight: Tensor, generator: Generator) -> Tensor:
    noise = torch.randn(weight.shape, generator=generator)
    if weight.dim() >= 2 and not _is_structured(weight):
        return noise / math.sqrt(max(weight[0].numel(), 1))
    if (weight == 1).all():
        return torch.rand(weight.shape, generator=generator) + 0.5
    return weight + NOISE * noise


def _is_structured(weight: Tensor) -> bool:
    """Whether the rows are equal: a state matrix or a scale rather than random weights."""
    return weight.shape[0] > 1 and bool((weight == weight[:1]).all()) and bool(weight.any())
