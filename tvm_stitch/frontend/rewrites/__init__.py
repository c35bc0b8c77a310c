"""Rewrites of the ONNX graph before TVM's importer sees it, one a file.

Each is `(graph, node) -> new nodes or None`; several that match one node apply in this order.
"""

from __future__ import annotations

from tvm_stitch.frontend.rewrites.arithmetic.bfloat16 import bfloat16_through_float
from tvm_stitch.frontend.rewrites.arithmetic.bit_shift import wide_shift
from tvm_stitch.frontend.rewrites.arithmetic.bool_equal import bool_equal
from tvm_stitch.frontend.rewrites.arithmetic.cum_prod import cum_prod
from tvm_stitch.frontend.rewrites.arithmetic.float_mod import float_mod
from tvm_stitch.frontend.rewrites.arithmetic.half_elu import half_elu
from tvm_stitch.frontend.rewrites.arithmetic.power import mixed_power, small_power
from tvm_stitch.frontend.rewrites.arithmetic.scalar_operand import scalar_operand
from tvm_stitch.frontend.rewrites.arithmetic.scalar_slope import scalar_slope
from tvm_stitch.frontend.rewrites.arithmetic.special_values import (
    clip_by_constants,
    clip_to_finite,
    one_sided_isinf,
    sign_of_nan,
    thresholded_relu,
)
from tvm_stitch.frontend.rewrites.attention.attention import attention
from tvm_stitch.frontend.rewrites.auto_pad import explicit_pads
from tvm_stitch.frontend.rewrites.det import det
from tvm_stitch.frontend.rewrites.drawn.draws import DRAWN_OPS, drawn
from tvm_stitch.frontend.rewrites.dropout import dropout
from tvm_stitch.frontend.rewrites.gemm import gemm
from tvm_stitch.frontend.rewrites.indexing.compress import compress
from tvm_stitch.frontend.rewrites.indexing.crossed_slice import crossed_slice
from tvm_stitch.frontend.rewrites.indexing.eye_like import eye_like
from tvm_stitch.frontend.rewrites.indexing.reverse_sequence import reverse_sequence
from tvm_stitch.frontend.rewrites.indexing.sequences import sequences
from tvm_stitch.frontend.rewrites.indexing.space_to_depth import space_to_depth
from tvm_stitch.frontend.rewrites.indexing.tensor_scatter import tensor_scatter
from tvm_stitch.frontend.rewrites.microsoft import MICROSOFT_OPS, microsoft
from tvm_stitch.frontend.rewrites.norms.batch_normalization import batch_normalization
from tvm_stitch.frontend.rewrites.norms.layer_normalization import layer_normalization
from tvm_stitch.frontend.rewrites.norms.lp_normalization import lp_normalization
from tvm_stitch.frontend.rewrites.one_hot import one_hot
from tvm_stitch.frontend.rewrites.quantised.blocks import quantised_blocks
from tvm_stitch.frontend.rewrites.quantised.products import (
    QUANTISED_PRODUCTS,
    quantised_product,
)
from tvm_stitch.frontend.rewrites.recurrent.layers import RECURRENT_OPS, recurrent
from tvm_stitch.frontend.rewrites.reductions.bool_extremes import extremes
from tvm_stitch.frontend.rewrites.reductions.half_reductions import half_reductions
from tvm_stitch.frontend.rewrites.reductions.integer_mean import integer_mean
from tvm_stitch.frontend.rewrites.reductions.log_sum_exp import log_sum_exp
from tvm_stitch.frontend.rewrites.reductions.reduce_noop import reduce_over_nothing
from tvm_stitch.frontend.rewrites.resize.resize import resize
from tvm_stitch.frontend.rewrites.spectra.dft import dft, stft
from tvm_stitch.frontend.rewrites.upsample import upsample
from tvm_stitch.frontend.rewrites.wide_concat import wide_concat
from tvm_stitch.frontend.rewrites.windows.col2im import col2im
from tvm_stitch.frontend.rewrites.windows.deform_conv import deform_conv
from tvm_stitch.frontend.rewrites.windows.max_unpool import max_unpool
from tvm_stitch.frontend.rewrites.windows.pool_indices import pool_indices

REWRITES = (
    sequences,
    microsoft,
    recurrent,
    attention,
    quantised_product,
    quantised_blocks,
    reverse_sequence,
    tensor_scatter,
    compress,
    space_to_depth,
    eye_like,
    crossed_slice,
    scalar_slope,
    col2im,
    deform_conv,
    max_unpool,
    drawn,
    det,
    dft,
    stft,
    wide_shift,
    float_mod,
    cum_prod,
    half_elu,
    extremes,
    wide_concat,
    resize,
    pool_indices,
    dropout,
    batch_normalization,
    gemm,
    small_power,
    mixed_power,
    layer_normalization,
    lp_normalization,
    reduce_over_nothing,
    half_reductions,
    log_sum_exp,
    integer_mean,
    one_hot,
    one_sided_isinf,
    sign_of_nan,
    thresholded_relu,
    clip_to_finite,
    clip_by_constants,
    bfloat16_through_float,
    bool_equal,
    explicit_pads,
    upsample,
    scalar_operand,
)
# Without these a model is as right, and slower.
OPTIONAL = (batch_normalization, gemm, small_power, clip_by_constants, scalar_operand)
_NAMED = (
    "Attention",
    "Col2Im",
    "CumProd",
    "DFT",
    "DeformConv",
    "Det",
    "ReverseSequence",
    "STFT",
    "TensorScatter",
)
# Operators that TVM's importer lacks and a rewrite above removes, by domain.
REWRITTEN_OPS = frozenset(
    {
        ("", "LpNormalization"),
        *(("com.microsoft", name) for name in MICROSOFT_OPS),
        *(("", name) for name in (*RECURRENT_OPS, *QUANTISED_PRODUCTS, *DRAWN_OPS, *_NAMED)),
    }
)
