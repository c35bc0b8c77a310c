"""Sorts of every type, along every axis, against NumPy's order of what is not a number too."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from tir_schedules.backend import backend, device_of
from tir_schedules.cpu.sorting.cut import cut
from tir_schedules.cpu.sorting.policy import SORTS
from tir_schedules.reference import reference_of
from tir_schedules.sorting import Sort

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
          "float16", "bfloat16", "float32", "float64"]  # fmt: skip
# Counted, sorted by bytes, bounded by groups: lengths and counts at each edge.
LENGTHS = [1, 3 * SORTS.lanes, SORTS.counted + 1, SORTS.long]
COUNTS = [1, SORTS.lanes // 2, SORTS.lanes // 2 + 1, 300]


def sort_of(shape, axis, count, dtype="float32", descending=False, values=True, places="int64"):
    count = min(count, shape[axis])
    return Sort(tuple(shape), axis, count, descending, dtype, values, places)


def numbers(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return numbers, many of them equal, with zeros of both signs, infinities and NaN."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        ends = np.iinfo(dtype)
        some = [*range(20), ends.min, ends.max, ends.max - 1]
        return rng.choice(np.array(some, dtype), shape)
    wide = rng.standard_normal(shape)
    special = rng.choice([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40], shape)
    return np.where(rng.random(shape) < 0.5, special, wide).astype(np.dtype(dtype))


def order_of(x: np.ndarray, sort: Sort) -> np.ndarray:
    """Return the places of the first elements of each row, by NumPy in float64 or as integers."""
    wide = x.astype("f8") if x.dtype.kind in "fV" else x
    ranks = np.unique(wide, return_inverse=True)[1].reshape(x.shape).astype("i8")
    order = np.argsort(-ranks if sort.descending else ranks, sort.axis, kind="stable")
    return order.take(np.arange(sort.count), sort.axis)


def ran(func: tirx.PrimFunc, sort: Sort, x: np.ndarray) -> list[np.ndarray]:
    named = tvm.IRModule({"sort": func.with_attr("global_symbol", "sort")})
    kinds = [*([sort.dtype] if sort.values else []), *([sort.places] if sort.places else [])]
    made = [tvm.runtime.empty(sort.result_shape, kind) for kind in kinds]
    given = tvm.runtime.empty(x.shape, sort.dtype)
    given.copyfrom(x)
    tvm.compile(named, TARGET)["sort"](given, *made)
    return [tensor.numpy() for tensor in made]


def check(
    sort: Sort, threads: int, seed: int = 0, referenced: bool = False, x: np.ndarray | None = None
) -> None:
    device = device_of(TARGET, threads)
    if x is None:
        x = numbers(sort.dtype, sort.shape, np.random.default_rng(seed))
    func, order = backend(TARGET).sort(sort, device), order_of(x, sort)
    for each in (func, reference_of(func)) if referenced else (func,):
        got = ran(each, sort, x)
        if sort.values:
            want = np.take_along_axis(x, order, sort.axis)
            assert got[0].view("u1").tobytes() == want.view("u1").tobytes()
        if sort.places:
            np.testing.assert_array_equal(got[-1], order)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_is_in_order(dtype, descending):
    check(sort_of((3, 300, 2), 1, 300, dtype, descending), 1)


@pytest.mark.parametrize("dtype", DTYPES[::4])
def test_its_reference_sorts_alike(dtype):
    check(sort_of((4, 40), 1, 5, dtype, True, places="int32"), 1, referenced=True)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("length", LENGTHS)
def test_every_way_to_keep_the_first_is_right(length, count):
    check(sort_of((2, length), 1, count, descending=True), 1, length)


ROW = np.arange(1500)
HARD = {
    "ascending": ROW.astype("f4"),
    "descending": -ROW.astype("f4"),
    "equal": np.zeros(1500, "f4"),
    "zeros of both signs": np.where(ROW % 3, 0.0, -0.0).astype("f4"),
    "nothing is a number": np.full(1500, np.nan, "f4"),
    "no numbers of both signs": np.where(ROW % 400, np.where(ROW % 3, np.nan, -np.nan), 1.0),
    # Of 48 groups 19 have all that is small: the 20th least of a group holds none of it back.
    "few groups have the least": (ROW * 7919 % 1500 + (ROW % 48 >= 19) * 10_000).astype("i4"),
    "few are numbers": np.where(ROW % 400 == 7, 1.0, np.nan).astype("f4"),
    "the largest": np.full(1500, np.iinfo("i8").max),
    "few are less than the largest": np.iinfo("i8").max - (ROW % 500 == 3),
    "the least": np.full(1500, np.iinfo("i8").min),
    "halves of two": np.repeat(np.array([1, -1], "i4"), 750),
}


@pytest.mark.long(every=9)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", HARD)
def test_rows_in_which_no_bound_holds_many_back(name, descending):
    x = np.stack([HARD[name], HARD[name][::-1]])
    check(sort_of(x.shape, 1, 20, str(x.dtype), descending), 1, x=x)


@given(st.data())
@settings(max_examples=8, deadline=None)
def test_random_sorts(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    length = data.draw(st.integers(1, 700))
    shape = (*shape[:axis], length, *shape[axis + 1 :])
    values, places = data.draw(st.sampled_from([(True, "int64"), (True, None), (False, "int32")]))
    count = data.draw(st.integers(1, length))
    dtype, descending = data.draw(st.sampled_from(DTYPES)), data.draw(st.booleans())
    sort = sort_of(shape, axis, count, dtype, descending, values, places)
    check(sort, data.draw(st.sampled_from([1, 2, 5])), data.draw(st.integers(0, 1000)))


@pytest.mark.long(every=4)
@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize(("rows", "threads"), [(1, 2), (1, 5), (2, 8)])
def test_parts_of_long_rows_give_what_one_thread_gives(rows, threads, count):
    sort = sort_of((rows, 300_011), 1, count)
    assert cut(sort, device_of(TARGET, threads)).parts == -(-threads // rows)
    check(sort, threads)


def test_a_last_part_that_holds_too_little_is_none():
    """Of 10,001 elements 200 parts would be 51 long, and the last would begin behind the end."""
    device = device_of(TARGET, 200)
    free = replace(device.profile, region_ns={200: 0.0})
    for length, parts in ((10_001, 1), (200_000, 200)):
        assert cut(sort_of((1, length), 1, 2), replace(device, profile=free)).parts == parts


def test_threads_share_out_what_is_worth_a_region():
    two = device_of(TARGET, 2)
    assert not cut(sort_of((128, 8), 1, 2), two).parallel
    assert cut(sort_of((4096, 64), 1, 6), two).parallel
    assert not cut(sort_of((4096, 64), 1, 6), device_of(TARGET, 1)).parallel


def test_what_has_no_elements_has_no_kernel():
    for shape in ((0, 5), (3, 0)):
        assert isinstance(backend(TARGET).sort(sort_of(shape, 1, 2), device_of(TARGET, 1)), str)


def test_halves_of_both_kinds_hold_what_numpy_and_ml_dtypes_hold():
    """A cast to float32 is exact: subnormal halves stay apart."""
    for dtype in (np.float16, ml_dtypes.bfloat16):
        bits = np.arange(1, 200, dtype="u2")
        x = np.random.default_rng(0).permutation(bits).view(dtype)
        sort = sort_of(x.shape, 0, 199, np.dtype(dtype).name)
        got = ran(backend(TARGET).sort(sort, device_of(TARGET, 1)), sort, x)
        assert got[0].view("u2").tolist() == bits.tolist()
