"""Every memory-intensive subgraph is one stitched kernel with the numbers of float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import zoo

from support.kernels import stitch_case as sc
from support.kernels import tir

SHAPES = {"float32": 2, "float64": 1, "float16": 1, "bfloat16": 1}  # a subgraph and option set


def covering_sample() -> list[sc.Case]:
    cases = []
    kinds = [(name, options) for name in sc.SUBGRAPHS for options in sc.variants(name)]
    for number, (name, options) in enumerate(kinds):
        for position, dtype in enumerate(sc.DTYPES):
            shapes = sc.covering_shapes(10 * number + position, 5 * SHAPES[dtype])
            start = number * SHAPES[dtype]
            for shape in shapes[start % 5 : start % 5 + SHAPES[dtype]]:
                if sc.takes(name, options, shape):
                    cases.append(sc.Case(name, shape, dtype, options))
    return cases


SAMPLE = covering_sample()
EVERY_OPTION = [sc.Case(n, None, "float32", o) for n in sc.SUBGRAPHS for o in sc.variants(n)]
LONG_COLUMNS = [  # a softmax whose columns are long and few: tiles of whole columns are few too
    sc.Case("softmax", (1, 1024, 384), options={"axis": 1}),
    sc.Case("softmax", (4, 1024, 127), options={"axis": 1}),
    sc.Case("softmax_residual", (1, 1024, 384), options={"axis": 1}),
    sc.Case("softmax", (1024, 2, 127), "bfloat16", {"form": "decomposed", "axis": 0}),
    sc.Case("l2_normalize", (1024, 1000), options={"axis": 0}),
]
LARGE = [sc.Case(n, zoo.bench_shapes(n)["peers"]) for n in sc.SUBGRAPHS]


@pytest.mark.long(every=4)
@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.id) for c in [*EVERY_OPTION, *SAMPLE, *LONG_COLUMNS]]
)
def test_a_subgraph_is_one_stitched_kernel_equal_to_numpy(case):
    sc.check(case)


@pytest.mark.long(every=5)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in LARGE])
def test_a_large_subgraph_is_one_parallel_vectorised_region(case):
    built = sc.check(case)
    (kernel,) = built.kernels.values()
    assert len(tir.regions(kernel.body)) == 1
    assert tir.scalar_contiguous(kernel) == []
    assert built.model.report.serial_above_threshold == []
    assert built.model.report.scalar_contiguous == []


@pytest.mark.parametrize("dtype", sc.DTYPES)
def test_the_sample_covers_every_rank_and_extent(dtype):
    shapes = [case.shape for case in SAMPLE if case.dtype == dtype]
    assert {len(shape) for shape in shapes} == set(sc.RANKS)
    assert {extent for shape in shapes for extent in shape} == set(sc.EXTENTS)
    assert {case.name for case in SAMPLE if case.dtype == dtype} == set(sc.SUBGRAPHS)


@pytest.mark.parametrize("name", ["layernorm_decomposed", "layernorm", "groupnorm", "rmsnorm"])
def test_a_normalisation_keeps_its_digits_far_from_zero(name):
    case = sc.Case(name, (64, 384))
    model = case.model()
    inputs = {key: array + 100 for key, array in zoo.random_inputs(model, 1).items()}
    got = sc.compiled(model).model.run(inputs)
    sc.assert_close(got, case.reference(inputs), sc.BOUND["float32"])


def test_a_half_precision_sum_does_not_stick_or_overflow():
    case = sc.Case("mean_variance", (4, 40_000), "float16")
    model = case.model()
    inputs = {"x": (10 + zoo.random_inputs(model, 1)["x"]).astype(np.float16)}
    got = sc.compiled(model).model.run(inputs)
    sc.assert_close(got, case.reference(inputs), sc.BOUND["float16"])


def test_the_full_matrix_holds_every_subgraph_option_rank_extent_and_dtype():
    cases = list(sc.full_matrix())
    assert {(c.name, *map(str, c.options.items())) for c in cases} == {
        (name, *map(str, options.items())) for name in sc.SUBGRAPHS for options in sc.variants(name)
    }
    assert {len(c.shape) for c in cases} == set(sc.RANKS)
    for dtype in sc.DTYPES:
        extents = {n for c in cases if c.dtype == dtype for n in c.shape}
        assert extents == set(sc.EXTENTS)
    assert len({c.id for c in cases}) > 10_000
