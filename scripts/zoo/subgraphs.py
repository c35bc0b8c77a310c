"""The table of memory-intensive subgraphs, and what tests and benchmarks ask of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx

from zoo import chains, norms, reductions, softmaxes
from zoo.graph import Graph
from zoo.norms import Arrays, Shape
from zoo.weights import Float64Weights

DEFAULT_OPSET = 17
SMALLEST_OPSET_OF_ALL_OPS_IN_BFLOAT16 = 22


@dataclass(frozen=True)
class Subgraph:
    """One workload: how it is built, its float64 reference, and the shapes it is measured in.

    `cache` moves at most 1 MiB in float32 (one core's L2), `memory` at least 128 MiB (4 x L3);
    `peers` is the size in which the peers' published figures were measured. `shape` is a small
    one for tests. `variants` are the option sets worth testing beside the default.
    """

    build: Callable[..., None]
    reference: Callable[..., Arrays]
    shape: Shape
    cache: Shape
    memory: Shape
    peers: Shape
    min_rank: int = 1
    variants: Sequence[dict] = field(default=())


_LAYERNORM = {"shape": (4, 96), "cache": (64, 1024), "memory": (16384, 1024), "peers": (4096, 1024)}
_GELU = {"shape": (5, 96), "cache": (16, 3072), "memory": (8192, 3072), "peers": (512, 3072)}
_ROWS = {"shape": (4, 96), "cache": (32, 2048), "memory": (8192, 2048), "peers": (1024, 2048)}

SUBGRAPHS: dict[str, Subgraph] = {
    "layernorm_decomposed": Subgraph(
        partial(norms.layernorm, decomposed=True),
        norms.layernorm_reference,
        **_LAYERNORM,
    ),
    "layernorm": Subgraph(
        partial(norms.layernorm, decomposed=False),
        norms.layernorm_reference,
        **_LAYERNORM,
    ),
    "residual_layernorm": Subgraph(
        norms.residual_layernorm,
        norms.residual_layernorm_reference,
        shape=(4, 96),
        cache=(48, 768),
        memory=(16384, 768),
        peers=(512, 768),
        variants=({"decomposed": False}, {"with_sum": True}),
    ),
    "rmsnorm": Subgraph(
        norms.rmsnorm,
        norms.rmsnorm_reference,
        variants=({"reciprocal": True},),
        **_ROWS,
    ),
    "groupnorm": Subgraph(
        norms.groupnorm,
        norms.groupnorm_reference,
        shape=(2, 64, 5, 7),
        cache=(1, 64, 28, 28),
        memory=(16, 320, 64, 64),
        peers=(2, 320, 64, 64),
        min_rank=2,
        variants=({"form": "decomposed"}, {"groups": 8}),
    ),
    "l2_normalize": Subgraph(
        norms.l2_normalize,
        norms.l2_normalize_reference,
        variants=({"form": "decomposed"}, {"axis": 0}),
        **_ROWS,
    ),
    "softmax": Subgraph(
        softmaxes.softmax,
        softmaxes.softmax_reference,
        shape=(3, 5, 40),
        cache=(1, 128, 384),
        memory=(120, 384, 384),
        peers=(12, 384, 384),
        variants=({"axis": 1}, {"form": "decomposed"}, {"form": "decomposed", "axis": 0}),
    ),
    "masked_softmax": Subgraph(
        softmaxes.masked_softmax,
        softmaxes.masked_softmax_reference,
        shape=(2, 3, 17, 40),
        cache=(1, 1, 128, 384),
        memory=(10, 12, 384, 384),
        peers=(1, 12, 384, 384),
        variants=({"mask": "where"}, {"mask": "where", "fill": "-inf"}),
    ),
    "softmax_residual": Subgraph(
        softmaxes.softmax_residual,
        softmaxes.softmax_residual_reference,
        shape=(3, 5, 40),
        cache=(1, 128, 384),
        memory=(96, 384, 384),
        peers=(12, 384, 384),
        variants=({"axis": 1},),
    ),
    "logsoftmax_nll": Subgraph(
        softmaxes.logsoftmax_nll,
        softmaxes.logsoftmax_nll_reference,
        shape=(5, 96),
        cache=(16, 8192),
        memory=(4096, 8192),
        peers=(512, 8192),
        variants=({"mean": True},),
    ),
    "bias_gelu": Subgraph(
        partial(chains.bias_gelu, tanh=False),
        partial(chains.bias_gelu_reference, tanh=False),
        **_GELU,
    ),
    "bias_gelu_tanh": Subgraph(
        partial(chains.bias_gelu, tanh=True),
        partial(chains.bias_gelu_reference, tanh=True),
        **_GELU,
    ),
    "bn_relu_residual": Subgraph(
        chains.bn_relu_residual,
        chains.bn_relu_residual_reference,
        shape=(2, 16, 5, 7),
        cache=(1, 64, 28, 28),
        memory=(64, 64, 56, 56),
        peers=(8, 64, 56, 56),
        min_rank=2,
        variants=({"relu": "after"},),
    ),
    "gru_cell": Subgraph(
        chains.gru_cell,
        chains.gru_cell_reference,
        shape=(5, 32),
        cache=(32, 256),
        memory=(16384, 256),
        peers=(1024, 256),
    ),
    "row_then_group": Subgraph(
        reductions.row_then_group,
        reductions.row_then_group_reference,
        shape=(4, 96),
        cache=(64, 1024),
        memory=(16384, 1024),
        peers=(2048, 1024),
        variants=({"group": 8},),
    ),
    "row_and_column": Subgraph(
        reductions.row_and_column,
        reductions.row_and_column_reference,
        shape=(5, 96),
        cache=(64, 1024),
        memory=(16384, 1024),
        peers=(2048, 1024),
        min_rank=2,
    ),
    "mean_variance": Subgraph(
        reductions.mean_variance,
        reductions.mean_variance_reference,
        shape=(5, 96),
        cache=(128, 1024),
        memory=(32768, 1024),
        peers=(4096, 1024),
        variants=({"keepdims": False}, {"axes": (0,)}),
    ),
    "squeeze_excite": Subgraph(
        reductions.squeeze_excite,
        reductions.squeeze_excite_reference,
        shape=(2, 32, 7, 5),
        cache=(1, 64, 28, 28),
        memory=(24, 256, 56, 56),
        peers=(1, 256, 56, 56),
        min_rank=3,
        variants=({"form": "fc"},),
    ),
}


def subgraph(
    name: str,
    shape: Sequence[int] | None = None,
    dtype: str = "float32",
    opset: int | None = None,
    seed: int = 0,
    **options: object,
) -> onnx.ModelProto:
    """Build a subgraph; `shape` is that of its main input (gru_cell: of its hidden state).

    Without `opset` it is 17, and 22 in bfloat16 where an op has that type only since.

    Raises: KeyError for an unknown name, ValueError for a rank or option it does not take.
    """
    entry = SUBGRAPHS[name]
    shape = entry.shape if shape is None else tuple(shape)
    if len(shape) < entry.min_rank:
        raise ValueError(f"{name} takes rank {entry.min_rank} or more, got shape {shape}")
    late = dtype == "bfloat16" and name in {"groupnorm", "squeeze_excite"}
    default = SMALLEST_OPSET_OF_ALL_OPS_IN_BFLOAT16 if late else DEFAULT_OPSET
    g = Graph(name, dtype, opset or default, seed)
    entry.build(g, shape, **options)
    return g.model()


def reference(
    name: str, inputs: dict[str, np.ndarray], seed: int = 0, **options: object
) -> dict[str, np.ndarray]:
    """Return the float64 outputs that `subgraph(name, ..., **options)` should give.

    Computed in NumPy from the same inputs and weights, both exactly as rounded to the inputs'
    float type; nothing of ONNX takes part. NaN and infinities raise no warning.
    """
    floats = [a.dtype for a in inputs.values() if a.dtype.kind not in "iub"]
    exact = {k: a if a.dtype.kind in "iub" else a.astype(np.float64) for k, a in inputs.items()}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing
        return SUBGRAPHS[name].reference(exact, Float64Weights(floats[0], seed), **options)


def bench_shapes(name: str) -> dict[str, Shape]:
    """Return the shapes to measure: "cache" (in L2), "memory" (4 x L3 or more), "peers"."""
    entry = SUBGRAPHS[name]
    return {"cache": entry.cache, "memory": entry.memory, "peers": entry.peers}
