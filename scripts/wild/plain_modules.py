"""Modules of plain PyTorch that no zoo above holds: recurrences, caches, folds, dilated stacks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CausalConvolutions(nn.Module):
    """A temporal convolution net: causal, dilation doubling, residual (Bai et al., 2018)."""

    def __init__(self, channels: int = 32, layers: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(channels, channels, 3, dilation=2**i, padding=2 * 2**i) for i in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + F.relu(layer(x)[..., : x.shape[-1]])
        return x.mean(-1)


class Recurrent(nn.Module):
    """A recurrent layer of torch, then a projection of each step."""

    def __init__(self, layer: nn.Module, hidden: int, classes: int = 10) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0])


class CellLoop(nn.Module):
    """A recurrent cell called step by step, which exporters unroll."""

    def __init__(self, cell: nn.Module, hidden: int) -> None:
        super().__init__()
        self.cell, self.hidden = cell, hidden

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], self.hidden)
        steps = []
        for i in range(x.shape[1]):
            state = self.cell(x[:, i], state)
            steps.append(state)
        return torch.stack(steps, 1)


class UNet(nn.Module):
    """Two steps down, two up, with skips: concatenation, transposed convolution, upsampling."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = self._pair(3, width)
        self.second = self._pair(width, 2 * width)
        self.bottom = self._pair(2 * width, 4 * width)
        self.up = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.third = self._pair(4 * width, 2 * width)
        self.last = self._pair(3 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def _pair(channels_in: int, channels: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.GroupNorm(4, channels),
            nn.SiLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        second = self.second(F.max_pool2d(first, 2))
        bottom = self.bottom(F.max_pool2d(second, 2))
        third = self.third(torch.cat([self.up(bottom), second], 1))
        wide = F.interpolate(third, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.last(torch.cat([wide, first], 1)))


class SqueezeExcite(nn.Module):
    """Blocks of depthwise convolution, squeeze and excitation, odd sizes, stride two."""

    def __init__(self, channels: int = 24, blocks: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=2)
        self.depthwise = nn.ModuleList(
            nn.Conv2d(channels, channels, 5, stride=1 + i % 2, padding=2, groups=channels)
            for i in range(blocks)
        )
        self.squeeze = nn.ModuleList(nn.Conv2d(channels, 6, 1) for _ in range(blocks))
        self.excite = nn.ModuleList(nn.Conv2d(6, channels, 1) for _ in range(blocks))
        self.head = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.stem(x))
        for depthwise, squeeze, excite in zip(
            self.depthwise, self.squeeze, self.excite, strict=True
        ):
            x = depthwise(x)
            gate = excite(F.relu(squeeze(x.mean((2, 3), keepdim=True))))
            x = x * F.hardsigmoid(gate)
        return self.head(x.flatten(2).amax(-1))


class DecodeStep(nn.Module):
    """One token against a cache of keys and values: grouped heads, cache grown and returned."""

    def __init__(self, hidden: int = 64, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, hidden // heads
        self.norm = nn.LayerNorm(hidden)
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, groups * self.size)
        self.value = nn.Linear(hidden, groups * self.size)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        batch, length, _ = x.shape
        y = self.norm(x)
        query = self.query(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        key = self.key(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        value = self.value(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        repeat = self.heads // self.groups
        scores = query @ keys.repeat_interleave(repeat, 1).transpose(-1, -2) / self.size**0.5
        weights = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf")).softmax(-1)
        seen = weights @ values.repeat_interleave(repeat, 1)
        return x + self.out(seen.transpose(1, 2).flatten(2)), keys, values


class CrossAttention(nn.Module):
    """Queries of one sequence over another, torch's own attention, a gated projection."""

    def __init__(self, hidden: int = 64, context: int = 48) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(
            hidden, 4, kdim=context, vdim=context, batch_first=True
        )
        self.norm, self.gate = nn.LayerNorm(hidden), nn.Linear(hidden, 2 * hidden)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        seen, _ = self.attention(
            self.norm(x), context, context, key_padding_mask=mask == 0, need_weights=False
        )
        return x + F.glu(self.gate(seen), -1)


class FoldedWindows(nn.Module):
    """Unfold overlapping windows, weigh each, fold them back (outlook attention's frame)."""

    def __init__(self, channels: int = 8, window: int = 3) -> None:
        super().__init__()
        self.window = window
        self.weigh = nn.Linear(channels * window**2, channels * window**2)

    def forward(self, x: Tensor) -> Tensor:
        options = {"kernel_size": self.window, "padding": 1, "stride": 2}
        windows = F.unfold(x, **options).transpose(1, 2)
        weighed = torch.softmax(self.weigh(windows), -1) * windows
        return F.fold(weighed.transpose(1, 2), x.shape[-2:], **options)


class PooledNorms(nn.Module):
    """Reductions over tokens followed by norms of rows, both ways round."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.mix = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + self.mix(self.before(x))
        pooled = self.after(y[:, 1:].mean(1))
        return pooled, (y - pooled[:, None]).softmax(1)
