"""Threads: counts, callers, affinity, barriers, and no pile of pools."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm_ffi

import tvm_stitch
from support.kernels import memory
from support.models.runtime import Fails, ParallelSteps, Phases, built, convolution


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.fixture(scope="module")
def steps():
    return {threads: built(ParallelSteps, (64, 512), threads) for threads in (1, 2, 3)}


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_parallel_kernel_is_right_with_any_number_of_threads(steps, x, threads):
    for _ in range(50):
        np.testing.assert_array_equal(steps[threads].run({"x": x})["y"], x + 1 + 1)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_barrier_separates_the_phases_of_a_region(threads):
    model = built(Phases, (64, 64), threads)
    x = np.random.default_rng(1).integers(-8, 8, (64, 64)).astype(np.float32)
    for _ in range(200):
        np.testing.assert_array_equal(model.run({"x": x})["y"], x + x.sum(0)[::-1])


@pytest.mark.parametrize("row", [0, 7], ids=["caller", "worker"])
def test_a_kernel_that_fails_before_a_barrier_raises_and_the_next_runs(row):
    failing = [row]

    def fails(index: int) -> None:
        if index in failing:
            raise ValueError(f"row {index}")

    tvm_ffi.register_global_func("tests.fails", fails, override=True)
    x = np.ones((8, 64), np.float32)
    model = built(Fails, x.shape, 2)
    for _ in range(3):
        with pytest.raises(ValueError, match=f"row {row}"):
            model.run({"x": x})
    failing.clear()
    np.testing.assert_array_equal(model.run({"x": x})["y"], x)


def test_four_python_threads_may_call_one_model(steps, x):
    def work(index: int) -> bool:
        expected = x + index + 1 + 1
        return all(np.array_equal(steps[2].run({"x": x + index})["y"], expected) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_models_of_different_counts_run_at_the_same_time(steps, x):
    def work(threads: int) -> bool:
        return all(np.array_equal(steps[threads].run({"x": x})["y"], x + 1 + 1) for _ in range(50))

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(work, (1, 2, 3)))


def test_pools_do_not_pile_up(steps, x):
    steps[3].run({"x": x})
    before = _threads()
    for _ in range(5):
        caller = threading.Thread(target=lambda: steps[3].run({"x": x}))
        caller.start()
        caller.join()
        steps[2].run({"x": x})
    built(ParallelSteps, (64, 512), 3).run({"x": x})
    assert _threads() <= before  # a thread of another test may end only now


def test_one_thread_starts_no_worker():
    def starts_none() -> None:
        x = np.zeros((64, 512), np.float32)
        model = built(ParallelSteps, (64, 512), 1)
        before = _threads()
        model.run({"x": x})
        assert _threads() == before

    assert memory.in_child(starts_none) == 0


def test_the_callers_affinity_stays_as_it_is(steps, x):
    before = os.sched_getaffinity(0)
    steps[2].run({"x": x})
    assert os.sched_getaffinity(0) == before
    one = {min(before)}
    os.sched_setaffinity(0, one)
    try:
        steps[3].run({"x": x})
        assert os.sched_getaffinity(0) == one
    finally:
        os.sched_setaffinity(0, before)


def test_a_forked_child_starts_its_own_workers(steps, x):
    expected = steps[2].run({"x": x})["y"]
    assert _in_child(lambda: np.array_equal(steps[2].run({"x": x})["y"], expected)) == 0


def _in_child(work: Callable[[], bool]) -> int:
    """Run `work` in a forked child; return 0 if it gave truth."""

    def holds() -> None:
        assert work()

    return memory.in_child(holds)


@contextlib.contextmanager
def _busy(work):
    """Let another thread do `work` again and again."""
    done = threading.Event()

    def repeat() -> None:
        while not done.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_child_forked_while_another_thread_runs_has_no_lock_of_it(steps, x):
    with _busy(lambda: steps[2].run({"x": x})):
        for _ in range(20):
            assert _in_child(lambda: np.array_equal(steps[2].run({"x": x})["y"], x + 1 + 1)) == 0


def test_a_child_forked_while_weights_are_prepared_prepares_its_own():
    model = tvm_stitch.compile(convolution(), threads=2)
    ask, release = (
        model._library.module.get_function(f"tvm_stitch_{name}", query_imports=True)
        for name in ("weights", "release")
    )
    expected = [np.from_dlpack(weight).copy() for weight in ask()]

    def is_right() -> bool:
        return all(map(np.array_equal, map(np.from_dlpack, ask()), expected))

    with _busy(lambda: (release(), ask())):
        for _ in range(10):
            assert _in_child(is_right) == 0


def test_a_run_may_fork_in_its_midst(steps, x):
    codes = []

    def see(_name, before, _returned, _arguments) -> None:
        if before and not codes:
            codes.append(_in_child(lambda: True))

    watched = steps[2].watched(see)
    np.testing.assert_array_equal(watched.run({"x": x})["y"], x + 1 + 1)
    assert codes == [0]
