"""Scheduled kernels stay inside their buffers, use the machine, and always give the same bits."""

from __future__ import annotations

import ctypes
import logging
import math
from functools import partial

import numpy as np
import pytest
import tvm
import zoo
from tvm import tirx
from tvm.ir import IRModule
from tvm.script import tirx as T
from tvm.target import Target

from support.kernels import memory, tir
from support.kernels import stitch_case as sc
from tir_schedules import cpu
from tvm_stitch import targets
from tvm_stitch.runtime.artifact import Tensor
from tvm_stitch.runtime.buffers import InputSlot

PRIMES = {1: (31,), 2: (7, 31), 3: (3, 7, 17), 4: (2, 7, 3, 17)}
LONG = (3, 50_021)  # few rows, prime length: the reduced axis is split among tiles
ONE = {1: (1,), 2: (1, 1), 3: (1, 1, 1), 4: (1, 1, 1, 1)}


QUARTERS = [list(sc.SUBGRAPHS)[n::4] for n in range(4)]  # check_all.py has every shape of each


def _case(name: str, shapes: dict) -> sc.Case:
    rank = len(zoo.SUBGRAPHS[name].shape)
    return sc.Case(name, shapes[rank])


AWKWARD = [
    *(_case(name, ONE) for name in QUARTERS[0] if not name.endswith("softmax")),
    *(_case(name, PRIMES) for name in [*QUARTERS[0], *QUARTERS[2]]),
    *(sc.Case(name, LONG) for name in [*QUARTERS[1], *QUARTERS[3]]),
    *(sc.Case(name, (129, 1000)) for name in QUARTERS[2]),
    sc.Case("softmax", (2, 1000, 129), options={"axis": 1}),
    sc.Case("l2_normalize", (50_021, 3), options={"axis": 0}),
    sc.Case("mean_variance", (50_021, 3), options={"axes": (0,)}),
    sc.Case("mean_variance", (5_003, 129), options={"axes": (0,)}),
    sc.Case("row_and_column", (1021, 1000)),
    sc.Case("bn_relu_residual", (1, 3, 251, 251), "float16"),
    sc.Case("layernorm_decomposed", (77, 1021), "bfloat16"),
]


@pytest.mark.long(every=8)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in AWKWARD])
def test_a_kernel_touches_nothing_outside_its_inputs_and_writes_none(case):
    model = case.model()
    built = sc.compiled(model, threads=1)
    inputs = case.inputs(model, 2)
    expected = case.reference(inputs)

    def work(at_end: bool) -> None:
        arrays = {k: memory.guarded(a, at_end, writable=False) for k, a in inputs.items()}
        sc.assert_close(built.model.run(arrays), expected, sc.BOUND[case.dtype])

    assert memory.in_child(partial(work, at_end=True)) == 0
    assert memory.in_child(partial(work, at_end=False)) == 0


@pytest.mark.long(every=2)
@pytest.mark.parametrize("shape", [(17,), (1, 1), (7, 31), (129, 1000), LONG, (1021, 1000)])
def test_a_kernel_writes_nothing_outside_its_outputs(shape):
    case = sc.Case("row_and_column" if len(shape) > 1 else "softmax", shape)
    model = case.model()
    built = sc.compiled(model, threads=1)
    (kernel,) = built.kernels.values()
    inputs = case.inputs(model, 3)
    expected = case.reference(inputs)
    public = IRModule({"main": kernel.with_attr("global_symbol", "main")})
    run = tvm.compile(public, targets.resolve("x86", 1)).jit()["main"]

    def work(at_end: bool) -> None:
        given = [memory.guarded(a, at_end, writable=False) for a in inputs.values()]
        made = [
            memory.guarded(np.full(e.shape, np.nan, np.float32), at_end, writable=True)
            for e in expected.values()
        ]
        by_shape = [*given, *made]
        slots = [InputSlot(Tensor("t", a.shape, "float32"), None) for a in by_shape]
        kept = [slot.place(array) for slot, array in zip(slots, by_shape, strict=True)]
        run(*(slot.tensor for slot in slots))
        assert len(kept) == len(kernel.params)
        sc.assert_close(dict(zip(expected, made, strict=True)), expected, sc.BOUND["float32"])

    assert memory.in_child(partial(work, at_end=True)) == 0
    assert memory.in_child(partial(work, at_end=False)) == 0


def test_the_guard_pages_catch_a_read_and_a_write_outside():
    array = memory.guarded(np.ones(5, np.float32), at_end=True, writable=False)
    beyond = array.ctypes.data + array.nbytes
    assert memory.in_child(lambda: ctypes.string_at(beyond, 1)) < 0
    assert memory.in_child(lambda: ctypes.memset(array.ctypes.data, 0, 1)) < 0
    assert memory.in_child(lambda: ctypes.string_at(array.ctypes.data, 20)) == 0


REPEATED = [
    *(sc.Case(n, zoo.bench_shapes(n)["cache"]) for n in sc.SUBGRAPHS),
    *(sc.Case(n, LONG) for n in ("layernorm", "softmax", "row_then_group", "logsoftmax_nll")),
    sc.Case("row_and_column", (1021, 1000)),
    sc.Case("mean_variance", (50_021, 3), options={"axes": (0,)}),
    sc.Case("mean_variance", (50_021, 3), "float16", {"axes": (0,)}),
    sc.Case("l2_normalize", (5_003, 129), options={"axis": 0}),
    sc.Case("logsoftmax_nll", (2048, 129), options={"mean": True}),
]


@pytest.mark.long(every=6)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in REPEATED])
def test_bits_do_not_depend_on_the_run_or_the_number_of_threads(case):
    model = case.model()
    inputs = case.inputs(model, 4)
    first: dict[str, bytes] | None = None
    for threads in (1, 2, 3):
        built = sc.compiled(model, threads).model
        for _ in range(2):
            bits = {name: array.tobytes() for name, array in built.run(inputs).items()}
            first = first or bits
            assert bits == first, f"{threads} threads"


@pytest.mark.long(every=4)
@pytest.mark.parametrize("name", sc.SUBGRAPHS)
def test_a_kernel_below_the_parallel_threshold_is_serial(name):
    built = sc.compiled(zoo.subgraph(name), threads=2)
    assert all(tir.regions(kernel.body) == [] for kernel in built.kernels.values())


def _vector_extents(kernel) -> list[int]:
    return [int(s.extent) for s, _ in tir.statements(kernel.body) if tir.is_vector(s)]


@pytest.mark.long(every=19)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("columns", [16, 17, 31, 64, 127, 384, 1000])
@pytest.mark.parametrize("name", ["softmax", "layernorm_decomposed", "bias_gelu"])
def test_a_contiguous_axis_of_16_or_more_runs_in_lanes(name, columns, dtype):
    built = sc.compiled(sc.Case(name, (64, columns), dtype).model())
    (kernel,) = built.kernels.values()
    assert tir.scalar_contiguous(kernel) == []
    assert max(_vector_extents(kernel)) >= 16
    assert all(n & (n - 1) == 0 for n in _vector_extents(kernel))
    assert built.model.report.scalar_contiguous == []


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(sc.Case("mean_variance", (4096, 129), options={"axes": (0,)}), id="columns"),
        pytest.param(sc.Case("row_and_column", (1021, 1000)), id="rows-and-columns"),
        pytest.param(sc.Case("softmax", (4, 512, 40), options={"axis": 1}), id="middle-axis"),
    ],
)
def test_a_reduction_over_an_outer_axis_runs_in_lanes_of_the_inner_one(case):
    built = sc.check(case)
    (kernel,) = built.kernels.values()
    assert tir.scalar_contiguous(kernel) == []
    assert max(_vector_extents(kernel)) >= 16


@pytest.mark.parametrize("name", sc.SUBGRAPHS)
def test_a_subgraph_may_have_no_rows(name):
    case = sc.Case(name, (0, *zoo.SUBGRAPHS[name].shape[1:]))
    model = case.model()
    inputs = zoo.random_inputs(model)
    got = sc.compiled(model).model.run(inputs)
    for output, expected in case.reference(inputs).items():
        assert got[output].shape == expected.shape
        np.testing.assert_array_equal(got[output], expected)


# The rules themselves


@T.prim_func(s_tir=True)
def row_sums(x: T.Buffer((64, 512), "float32"), out: T.Buffer((64,), "float32")):
    for i, k in T.grid(64, 512):
        with T.sblock("sums"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                out[vi] = T.float32(0)
            out[vi] = out[vi] + x[vi, vk]


@T.prim_func(s_tir=True)
def scan(x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.sblock("scan"):
            vi = T.axis.opaque(64, i)
            out[vi] = T.if_then_else(vi > 0, out[vi - 1], T.float32(0)) + x[vi]


def test_a_rule_schedules_a_kernel_it_knows():
    (rule,) = cpu.rules()[:1]
    schedule = rule.apply(row_sums, targets.resolve("x86", 2), False)
    kernel = schedule.mod["main"]
    assert _vector_extents(kernel)
    x = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
    tensors = [tvm.runtime.tensor(a) for a in (x, np.zeros(64, np.float32))]
    tvm.compile(IRModule({"main": kernel}), targets.resolve("x86", 2)).jit()["main"](*tensors)
    np.testing.assert_allclose(tensors[1].numpy(), x.astype(np.float64).sum(1), 1e-5, 1e-4)


@pytest.mark.parametrize(
    ("func", "target", "reason"),
    [
        pytest.param(row_sums, "cuda", "target kind is cuda, not llvm", id="target"),
        pytest.param(scan, "llvm", "neither spatial nor a reduction", id="scan"),
    ],
)
def test_a_rule_declines_a_foreign_kernel_and_says_why(func, target, reason, caplog):
    chosen = targets.resolve("x86", 2) if target == "llvm" else Target(target)
    with caplog.at_level(logging.DEBUG, "tvm_stitch.schedule"):
        assert all(rule.apply(func, chosen, False) is None for rule in cpu.rules())
    assert reason in caplog.text


def test_a_rule_leaves_its_input_alone():
    before = row_sums.script()
    cpu.rules()[0].apply(row_sums, targets.resolve("x86", 2), False)
    assert row_sums.script() == before


def test_partial_results_are_split_by_shape_alone():
    shapes = {}
    for threads in (1, 2, 7):
        (kernel,) = sc.compiled(
            sc.Case("row_and_column", (1021, 1000)).model(), threads
        ).kernels.values()
        shapes[threads] = sorted(
            math.prod(int(d) for d in s.buffer.ty.shape)
            for s, _ in tir.statements(kernel.body)
            if isinstance(s, tirx.AllocBuffer)
        )
    assert shapes[1] == shapes[2] == shapes[7]
