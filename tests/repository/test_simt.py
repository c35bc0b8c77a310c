"""CUDA kernels run by fibers: threads meet as they do on a GPU, and what is wrong shows."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes  # noqa: F401  NumPy knows bfloat16 by it
import numpy as np
import pytest
from tvm import s_tir, te, tirx

from support.simt.serial import run_serial
from support.simt.simulator import Simulated, SimulationError, simulated

ORDERS = 20


def kernel(body: str, threads: int = 64, blocks: int = 1, made: str = "int") -> Simulated:
    """Return a kernel that writes `made` out[] of int x[], its thread being t of block b."""
    head = f'extern "C" __global__ void f(int* __restrict__ x_ptr, {made}* __restrict__ out_ptr) {{'
    lines = [head, "int t = threadIdx.x, b = blockIdx.x;", body, "}"]
    return Simulated("\n".join(lines), (blocks, 1, 1), (threads, 1, 1), ("x", "out"))


def given(count: int = 64) -> np.ndarray:
    return np.random.default_rng(0).integers(-999, 999, count, dtype="int32")


def result(made: Simulated, x: np.ndarray, seed: int = 0) -> np.ndarray:
    out = np.empty_like(x)
    made.run([x], [out], seed)
    return out


def rows_over_their_sums(columns: int, threads: int) -> tirx.PrimFunc:
    """Return each row over its sum, which a block's threads add up together."""
    x = te.placeholder((5, columns), "float32", "x")
    k = te.reduce_axis((0, columns), "k")
    total = te.compute((5,), lambda i: te.sum(x[i, k], axis=k), "total")
    out = te.compute(x.shape, lambda i, j: x[i, j] / total[i], "out")
    schedule = s_tir.Schedule(te.create_prim_func([x, out]))
    summed, divided = schedule.get_sblock("total"), schedule.get_sblock("out")
    row, column = schedule.get_loops(divided)
    schedule.bind(row, "blockIdx.x")
    schedule.bind(schedule.split(column, [None, threads])[1], "threadIdx.x")
    schedule.compute_at(summed, row)
    schedule.set_scope(summed, 0, "shared")
    schedule.bind(schedule.split(schedule.get_loops(summed)[-1], [None, threads])[1], "threadIdx.x")
    return schedule.mod["main"]


def is_right(made: Simulated, columns: int, seed: int) -> bool:
    x = np.random.default_rng(seed).uniform(1, 2, (5, columns)).astype("float32")
    out = np.empty_like(x)
    made.run([x], [out], seed)
    return np.allclose(out, x / x.sum(1, dtype="float64", keepdims=True), rtol=1e-5)


@pytest.mark.long(every=3)
@pytest.mark.parametrize(
    ("columns", "threads"), [(2, 32), (31, 32), (33, 64), (250, 128), (999, 256)]
)
def test_what_tvm_makes_is_right_in_any_order(columns, threads):
    made = simulated(rows_over_their_sums(columns, threads))
    assert (made.grid, made.threads) == ((5, 1, 1), (threads, 1, 1))
    assert all(is_right(made, columns, seed) for seed in range(ORDERS))


@pytest.mark.parametrize(("columns", "threads"), [(2, 32), (250, 128), (999, 256)])
def test_loops_of_one_thread_compute_the_same(columns, threads):
    x = np.random.default_rng(3).uniform(1, 2, (5, columns)).astype("float32")
    out = np.full_like(x, np.nan)
    run_serial(rows_over_their_sums(columns, threads), x, out)
    np.testing.assert_allclose(out, x / x.sum(1, dtype="float64", keepdims=True), rtol=1e-5)


def test_without_a_barrier_that_is_needed_numbers_are_wrong_in_some_order():
    """The second of three stands between a write and a read of one thread."""
    made = simulated(rows_over_their_sums(250, 128))
    right = [
        all(is_right(made.without_barrier(n), 250, seed) for seed in range(ORDERS))
        for n in range(made.barriers)
    ]
    assert right == [False, True, False]


@pytest.mark.parametrize(
    ("name", "expression", "source"),
    [
        ("down", "__shfl_down_sync(0xffffffff, x_ptr[t], 3, 32)", lambda n: n + 3),
        ("up", "__shfl_up_sync(0xffffffff, x_ptr[t], 3, 32)", lambda n: n - 3),
        ("xor", "__shfl_xor_sync(0xffffffff, x_ptr[t], 5, 32)", lambda n: n ^ 5),
        ("from", "__shfl_sync(0xffffffff, x_ptr[t], 7, 32)", lambda _: 7),
        ("eighths", "__shfl_down_sync(0xffffffff, x_ptr[t], 2, 8)", lambda n: n + 2),
    ],
)
def test_lanes_take_what_others_give(name: str, expression: str, source: Callable[[int], int]):
    width, x = 8 if name == "eighths" else 32, given()
    lanes = np.arange(64) % width
    taken = np.array([source(int(lane)) for lane in lanes])
    inside = (taken >= 0) & (taken < width)
    wanted = np.where(inside, x[(np.arange(64) - lanes + taken) % 64], x)
    for seed in range(5):
        np.testing.assert_array_equal(
            result(kernel(f"out_ptr[t] = {expression};"), x, seed), wanted
        )


def test_lanes_vote_and_know_who_is_there():
    x = given()
    votes = result(kernel("out_ptr[t] = __ballot_sync(0xffffffff, x_ptr[t] > 0);"), x, 1)
    masks = [sum(1 << n for n in range(32) if x[first + n] > 0) for first in (0, 32)]
    np.testing.assert_array_equal(votes.view("uint32"), np.repeat(masks, 32))
    there = "out_ptr[t] = 0; if (t % 32 < 5) { out_ptr[t] = __activemask(); }"
    np.testing.assert_array_equal(result(kernel(there), x), np.where(np.arange(64) % 32 < 5, 31, 0))


def test_what_nobody_writes_is_nan():
    made = kernel("if (t != 3) { out_ptr[t] = x_ptr[t]; }", made="float")
    out = np.empty(64, "float32")
    made.run([given()], [out], 0)
    assert np.flatnonzero(np.isnan(out)).tolist() == [3]


@pytest.mark.parametrize(
    "where", ["__shared__ alignas(64) int s_ptr[64];", "extern __shared__ int s_ptr[];"]
)
def test_shared_memory_is_a_blocks_own_and_begins_as_nan(where):
    x = given(128)
    kept = f"{where}\nout_ptr[b * 64 + t] = s_ptr[t]; s_ptr[t] = x_ptr[t];"
    assert set(result(kernel(kept, blocks=2), x).tolist()) == {-1}
    written = f"{where}\ns_ptr[t] = x_ptr[b * 64 + t];\n"
    made = kernel(f"{written}__syncthreads();\nout_ptr[b * 64 + t] = s_ptr[63 - t];", blocks=2)
    np.testing.assert_array_equal(result(made, x), x.reshape(2, 64)[:, ::-1].ravel())
    assert (result(made.without_barrier(0), x) != x.reshape(2, 64)[:, ::-1].ravel()).any()


def test_four_numbers_are_one_load():
    body = "if (t < 16) { *(int4*)(out_ptr + t * 4) = *(int4*)(x_ptr + t * 4); }"
    np.testing.assert_array_equal(result(kernel(body), given()), given())


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if (t < 3) {\n__syncthreads();\n}", "of the threads 3 wait at the barrier"),
        ("if (t < 32) {\n__syncthreads();\n} else {\n__syncthreads();\n}", "barriers 4 and 6 meet"),
        ("if (t < 5) {\n__shfl_xor_sync(0xffffffff, t, 1, 32);\n}", "lanes of line 4 wait"),
    ],
    ids=["some", "two", "lanes"],
)
def test_threads_that_never_meet_are_told(body, says):
    made = kernel(body)
    with pytest.raises(SimulationError, match=says):
        made.run([given()], [given()], 0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("out_ptr[t] = x_ptr[t + 1];", "an array has no element 64 in line 3"),
        ("out_ptr[t - 1] = x_ptr[t];", "an array has no element -1 in line 3"),
        ("__shared__ int s_ptr[63];\ns_ptr[t] = x_ptr[t];", "an array has no element 63 in line 4"),
        ("*(int4*)(out_ptr + t) = *(int4*)(x_ptr + 0);", "no vector begins at element"),
    ],
    ids=["load", "store", "shared", "vector"],
)
def test_what_is_outside_of_an_array_is_told(body, says):
    with pytest.raises(SimulationError, match=says):
        kernel(body).run([given()], [given()], 0)


@pytest.mark.parametrize(
    ("index", "loads", "sectors"),
    [("t", 2, 8), ("t * 8", 2, 64), ("t / 32", 2, 2), ("t + 1", 2, 10), ("t ^ 1", 2, 8)],
)
def test_sectors_that_a_warp_asks_for_are_counted(index, loads, sectors):
    made = kernel(f"out_ptr[t] = x_ptr[{index}];")
    made.run([given(512)], [given()], 0, counting=True)
    read, written = made.counts("x"), made.counts("out")
    assert (read.loads, read.loaded, read.stores) == (loads, sectors, 0)
    assert (written.stores, written.stored, written.least_stored, written.loads) == (2, 8, 8, 0)


@pytest.mark.parametrize(
    ("index", "turns"),
    [("t", 1), ("t * 2", 2), ("t * 32", 32), ("t * 33", 1), ("0", 1), ("t / 2", 1)],
)
def test_banks_of_shared_memory_that_meet_are_counted(index, turns):
    body = f"__shared__ int s_ptr[1056];\ns_ptr[{index}] = t;\n__syncthreads();\nout_ptr[t] = 1;"
    made = kernel(body, threads=32)
    made.run([given()], [given()], 0, counting=True)
    assert (made.counts("s").stored, made.counts("s").least_stored) == (turns, 1)


def test_vectors_of_shared_memory_go_by_a_quarter_of_a_warp():
    body = "__shared__ int s_ptr[128];\n*(int4*)(s_ptr + t * 4) = *(int4*)(x_ptr + t * 4);"
    made = kernel(f"{body}\nout_ptr[t] = s_ptr[t];", threads=32)
    made.run([given(128)], [given(32)], 0, counting=True)
    assert (made.counts("s").stored, made.counts("s").least_stored) == (4, 4)
    assert (made.counts("x").loads, made.counts("x").loaded) == (1, 16)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_vectors_of_128_bits_and_rounded(dtype):
    x = te.placeholder((3, 1024), dtype, "x")

    def point(i: te.Var, j: te.Var) -> te.Expr:
        larger = te.max(x[i, j] * x[i, j], x[i, 0]).astype("float32")
        return (te.exp(x[i, j].astype("float32")) + larger).astype(dtype)

    schedule = s_tir.Schedule(te.create_prim_func([x, te.compute(x.shape, point, "out")]))
    row, column = schedule.get_loops(schedule.get_sblock("out"))
    _, threads, eight = schedule.split(column, [None, 64, 8])
    schedule.bind(row, "blockIdx.x")
    schedule.bind(threads, "threadIdx.x")
    schedule.vectorize(eight)
    made = simulated(schedule.mod["main"])
    numbers = np.random.default_rng(2).normal(size=(3, 1024)).astype(dtype)
    got = np.empty_like(numbers)
    made.run([numbers], [got], 0, counting=True)
    squares = (numbers.astype("float32") ** 2).astype(dtype).astype("float32")
    larger = np.maximum(squares, numbers[:, :1].astype("float32"))
    wanted = (np.exp(numbers.astype("float32")) + larger).astype(dtype)
    error = np.abs(got.astype("float64") - wanted.astype("float64"))
    assert (error <= np.abs(wanted.astype("float64")) * 2.0**-7).all()
    assert (error == 0).mean() > 0.99
    assert (made.counts("out").stores, made.counts("out").stored) == (12, 3 * 1024 * 2 // 32)


def test_two_axes_of_threads_and_of_blocks():
    x = te.placeholder((6, 40), "float32", "x")
    out = te.compute(x.shape, lambda i, j: x[i, j] + tirx.const(1.0, "float32"), "out")
    schedule = s_tir.Schedule(te.create_prim_func([x, out]))
    i, j = schedule.get_loops(schedule.get_sblock("out"))
    (bi, ti), (bj, tj) = (schedule.split(loop, [None, size]) for loop, size in ((i, 2), (j, 8)))
    schedule.reorder(bi, bj, ti, tj)
    for loop, axis in ((bi, "block"), (ti, "thread")):
        schedule.bind(loop, f"{axis}Idx.y")
    for loop, axis in ((bj, "block"), (tj, "thread")):
        schedule.bind(loop, f"{axis}Idx.x")
    made = simulated(schedule.mod["main"])
    assert (made.grid, made.threads) == ((5, 3, 1), (8, 2, 1))
    numbers = np.random.default_rng(1).normal(size=(6, 40)).astype("float32")
    got = np.empty_like(numbers)
    made.run([numbers], [got], 3)
    np.testing.assert_array_equal(got, numbers + 1)
