"""Stitched subgraphs as one CUDA kernel each: right in any order of threads and blocks."""

from __future__ import annotations

import pytest

from support.cuda.checked import planned, sectors, wrong
from support.cuda.kernels import fused
from support.kernels import stitch_case as sc

CASES = [
    sc.Case("softmax", (3, 5, 129)),
    sc.Case("masked_softmax", (2, 3, 64), "float16"),
    sc.Case("layernorm", (7, 1000)),
    sc.Case("residual_layernorm", (5, 96), "bfloat16"),
    sc.Case("groupnorm", (2, 6, 5, 7)),
    sc.Case("row_then_group", (17, 64)),
    sc.Case("bn_relu_residual", (2, 3, 31, 1)),
    sc.Case("bias_gelu", (3, 127), "float64"),
    sc.Case("gru_cell", (4, 96), "float16"),
    sc.Case("mean_variance", (2, 1, 7, 33)),
    sc.Case("row_and_column", (17, 31)),
    sc.Case("logsoftmax_nll", (5, 384)),
]


@pytest.mark.long(every=4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_subgraph_is_one_kernel_that_is_right(case):
    (func,) = fused(case.model())
    gpu = planned(func)
    assert len(gpu.plan.phases) == 1
    assert wrong(func, gpu, seed=len(case.id)) is None


@pytest.mark.long(every=2)
@pytest.mark.parametrize("name", ["softmax", "layernorm", "groupnorm", "residual_layernorm"])
def test_what_several_sums_are_made_of_is_loaded_once(name):
    """It stays in the registers of the threads that will need it."""
    shape = (2, 8, 16, 16) if name == "groupnorm" else (8, 256)
    (func,) = fused(sc.Case(name, shape).model())
    gpu = planned(func)
    moved = sectors(gpu)
    large = [tensor for tensor in gpu.kernel.params if tensor.elements >= 2048]
    assert {t.name: moved[t.name] for t in large} == {t.name: t.bytes // 32 for t in large}
