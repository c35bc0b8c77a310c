"""What graph passes choose by where several things can be done: figures, each with its reason.

None of them says what is right: with any other, results are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SearchPolicy:
    """How widely the explorer searches for plans (FusionStitching, section 5.2).

    It keeps the `top` candidates of each op, enumerates those of up to `leaf` consumers, assembles
    plans in a beam of `width`, improves one in up to `rounds`, and packs a kernel with one of the
    `pack_reach` before it.
    """

    top: int = 3
    leaf: int = 2
    width: int = 3
    rounds: int = 8
    pack_reach: int = 4


@dataclass(frozen=True)
class FusionPolicy:
    """When kernels are joined, and when ops are computed again.

    A kernel is taken apart when it is predicted to take 1 / (1 - `doubt`) times as long as its
    parts: of the pairs of docs/results/bench_fusion_gain.md that fusion is predicted to slow down
    by less, the worst prediction is off by about as much; the traps of `bench_plans.py` were in
    view too. Kernels of products are joined up to `join_doubt` slower, for the evaluator can't tell
    plans apart whose times are that close (whole transformers: one kernel for attention is
    predicted 0.4 % slower, and measures the same). Up to `reach` ops before or behind a product are
    looked at.

    An op is copied into up to `readers` kernels that read it where that takes no more than `gain`
    of the time: below a twentieth the evaluator can't tell. What the bytes alone say may be
    `margin` times less than that.
    """

    doubt: float = 0.35
    join_doubt: float = 0.01
    reach: int = 32
    readers: int = 3
    gain: float = 0.95
    margin: float = 2.0
    search: SearchPolicy = field(default_factory=SearchPolicy)


@dataclass(frozen=True)
class LayoutPolicy:
    """When images and weights are laid out anew.

    Minimal filtering must be predicted `winograd_worth` times as fast: up to 1.5 times what is
    gained. (ResNet-50's three sizes are predicted to gain 3.2, 2.5 and 1.7; alone they gained 2.6,
    2.2 and 1.5, the last 1.14 inside the model: 2 threads of a Xeon with AVX-512.)

    To turn an image around a pointwise convolution takes the profile's `turning_ns` and `passes`
    over it (8 x 1024 to 256 channels of 14 x 14 pixels take 2759 us turned and 3178 as
    a product, 8 x 96 to 512 of every second of them 239 and 268), against the lanes that a line of
    pixels leaves idle, of which a register tile takes `fused` of the price of products and sums.

    Weights that come as inputs are packed for `several` rows: 1.4 times as fast at 16, no gain at 1
    (768 x 16384 float32 of GPT-2's embedding, 2 threads of a Xeon with AVX-512). What each run
    makes is packed for `readings` rows (five blocks of 14 read a panel) if its depth fills a
    cache's sets: `full_sets` lines a page apart, in a cache of 2 MiB and 16 ways. One column in
    `padding` may be added, in L2 one in `padding_in_cache` times as many: 521 columns gained 9 %,
    257 lost 6. For constants that are stored in other layouts, `padding_share` of the weights'
    bytes may be added: with the folds' `duplicate_share` and the code, a file may have 20 % more.

    A picture has less than `few_channels`: it is laid out anew with its padding, and has too little
    depth for minimal filtering. The lanes of a turned image are those of `strip_pixels`, an image
    that is not small.

    Convolutions to few channels may be products whose taps share the lanes (col2im): what is stored
    and added costs `added_lanes` of a multiply-add, sums have up to `summed_taps` terms, which are
    emitted one by one, and the image grows up to `growth` times. (64 to 3 channels by 4 x 4 taps in
    steps of two take 45 us instead of 97, to 6 channels 74 instead of 100: Zen 4.)

    Calls on constants are computed at compile time up to `folded_points`. What PyTorch computes of
    parameters alone may be larger than these up to `folded_bytes`.
    """

    winograd_worth: float = 1.6
    passes: int = 2
    fused: float = 0.7
    several: int = 8
    readings: int = 64
    full_sets: int = 512
    padding: int = 8
    padding_in_cache: int = 2
    padding_share: float = 0.13
    few_channels: int = 16
    strip_pixels: int = 1 << 16
    added_lanes: int = 8
    summed_taps: int = 128
    growth: int = 2
    folded_points: int = 256
    folded_bytes: int = 1 << 16


@dataclass(frozen=True)
class LoopPolicy:
    """When loops that no kernel runs are written out.

    Of more than `written` steps, all operators of each, passes take minutes: such are refused,
    here and where a model is imported.
    """

    written: int = 1024


@dataclass(frozen=True)
class GatherPolicy:
    """When scans and scatters, which are loops, are written as reductions and gathers.

    A scanned axis is one block up to `block` elements: half a block is as many as a vector of
    lanes has. (64 x 4096: 135 us, where blocks of 32 take 182, of 8 160, and a loop 222: Zen 4.)

    Updates that may go anywhere are compared with each place up to `compared` comparisons, which
    cost less than a kernel between two others does, or if they are `few`. (65,536 take 24 us for a
    loop's 15, 2 updates of 64,000 elements 23 for 18.) Of known places a table of up to `in_table`
    elements says which updates each gets, at most `of_a_place`, written out one behind the other.
    Indices are computed at compile time up to `known_points`.
    """

    block: int = 16
    compared: int = 1 << 14
    few: int = 2
    in_table: int = 1 << 18
    of_a_place: int = 16
    known_points: int = 1 << 25


@dataclass(frozen=True)
class Policy:
    """All that graph passes choose by."""

    fusion: FusionPolicy = field(default_factory=FusionPolicy)
    layout: LayoutPolicy = field(default_factory=LayoutPolicy)
    loops: LoopPolicy = field(default_factory=LoopPolicy)
    gathers: GatherPolicy = field(default_factory=GatherPolicy)


POLICY = Policy()
