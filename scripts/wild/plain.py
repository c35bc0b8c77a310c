"""Plain PyTorch: what no library above has, and torch's own layers as users stack them."""

from __future__ import annotations

from functools import partial

from torch import nn

from wild.architecture import Architecture
from wild.plain_modules import (
    CausalConvolutions,
    CellLoop,
    CrossAttention,
    DecodeStep,
    FoldedWindows,
    PooledNorms,
    Recurrent,
    SqueezeExcite,
    UNet,
)
from wild.values import Draw, counting, images, normal, padded

HIDDEN = 32


def _plain(build, outputs: tuple[int, ...] = (0,), **inputs: Draw) -> Architecture:
    return Architecture("plain", build, inputs, outputs)


def _recurrent(layer: type[nn.Module], **options: object) -> Architecture:
    def build() -> nn.Module:
        built = layer(16, HIDDEN, batch_first=True, **options)
        return Recurrent(built, HIDDEN * (2 if options.get("bidirectional") else 1))

    return _plain(build, x=normal(2, 7, 16))


def _encoder(norm_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=norm_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


PLAIN: dict[str, Architecture] = {
    "lstm": _recurrent(nn.LSTM),
    "lstm_bidirectional": _recurrent(nn.LSTM, bidirectional=True, num_layers=2),
    "gru": _recurrent(nn.GRU),
    "rnn": _recurrent(nn.RNN),
    "gru_cells": _plain(lambda: CellLoop(nn.GRUCell(16, HIDDEN), HIDDEN), x=normal(2, 6, 16)),
    "rnn_cells": _plain(lambda: CellLoop(nn.RNNCell(16, HIDDEN), HIDDEN), x=normal(3, 5, 16)),
    "tcn": _plain(CausalConvolutions, x=normal(2, 32, 50)),
    "tcn_wide": _plain(partial(CausalConvolutions, 24, 5), x=normal(1, 24, 129)),
    "unet": _plain(UNet, x=images(1, 32)),
    "squeeze_excite": _plain(SqueezeExcite, x=images(2, 45)),
    "decode_step": _plain(
        DecodeStep,
        outputs=(0, 1, 2),
        x=normal(2, 1, 64),
        keys=normal(2, 2, 15, 16),
        values=normal(2, 2, 15, 16),
        mask=padded(2, 16, left=True),
    ),
    "cross_attention": _plain(
        CrossAttention, x=normal(2, 9, 64), context=normal(2, 13, 48), mask=padded(2, 13)
    ),
    "folded_windows": _plain(FoldedWindows, x=images(1, 13, 8)),
    "pooled_norms": _plain(PooledNorms, outputs=(0, 1), x=normal(2, 17, 64)),
    "encoder": _plain(partial(_encoder, False), src=normal(2, 11, 64)),
    "encoder_norm_first": _plain(partial(_encoder, True), src=normal(2, 11, 64)),
    "transformer": _plain(
        lambda: nn.Transformer(64, 4, 1, 1, 128, batch_first=True),
        src=normal(2, 9, 64),
        tgt=normal(2, 5, 64),
    ),
    "embedding_bag": _plain(
        lambda: nn.Sequential(nn.Embedding(40, 32), nn.LayerNorm(32), nn.Linear(32, 8)),
        input=counting(3, 11),
    ),
    "conv3d": _plain(
        lambda: nn.Sequential(
            nn.Conv3d(2, 8, 3, padding=1),
            nn.InstanceNorm3d(8, affine=True),
            nn.GELU(),
            nn.AvgPool3d(2),
            nn.Conv3d(8, 4, (1, 3, 3), stride=(1, 2, 2)),
        ),
        input=normal(1, 2, 6, 12, 12),
    ),
    "autoencoder": _plain(
        lambda: nn.Sequential(
            nn.Conv2d(3, 16, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ELU(),
            nn.ConvTranspose2d(32, 16, 3, stride=2, padding=1, output_padding=1),
            nn.PReLU(16),
            nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1),
            nn.Tanh(),
        ),
        input=images(2, 28),
    ),
    "pixel_shuffle": _plain(
        lambda: nn.Sequential(
            nn.ReflectionPad2d(2),
            nn.Conv2d(3, 36, 5),
            nn.PixelShuffle(2),
            nn.ReplicationPad2d(1),
            nn.Conv2d(9, 16, 3, bias=False),
            nn.PixelUnshuffle(3),
            nn.Conv2d(144, 8, 1),
            nn.Softplus(),
        ),
        input=images(1, 18),
    ),
    "mlp_narrow": _plain(
        lambda: nn.Sequential(
            nn.Linear(7, 33), nn.Mish(), nn.LayerNorm(33), nn.Linear(33, 1), nn.Sigmoid()
        ),
        input=normal(5, 3, 7),
    ),
    "softmax_over_channels": _plain(
        lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.Softmax2d(), nn.AdaptiveAvgPool2d((3, 5))),
        input=images(2, 17),
    ),
}
