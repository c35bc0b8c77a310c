"""A kernel's hash is of its structure: names do not count, everything else does."""

import hash_kernels
import pytest
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def doubled(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        with T.sblock("double"):
            v = T.axis.spatial(8, i)
            b[v] = a[v] * T.float32(2)


@T.prim_func(s_tir=True)
def renamed(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for row in T.parallel(8):
        with T.sblock("double"):
            at = T.axis.spatial(8, row)
            y[at] = x[at] * T.float32(2)


@T.prim_func(s_tir=True)
def serial(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("double"):
            v = T.axis.spatial(8, i)
            b[v] = a[v] * T.float32(2)


@T.prim_func(s_tir=True)
def tripled(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        with T.sblock("double"):
            v = T.axis.spatial(8, i)
            b[v] = a[v] * T.float32(3)


def test_names_do_not_count():
    assert hash_kernels.structure(doubled) == hash_kernels.structure(renamed)


@pytest.mark.parametrize("other", [serial, tripled])
def test_what_a_kernel_does_counts(other):
    assert hash_kernels.structure(doubled) != hash_kernels.structure(other)


def test_a_row_is_hashed_for_a_target_that_is_not_this_machine():
    line = hash_kernels.hashed(("x86-64-v3", "memory", 0))
    assert line.startswith("x86-64-v3 memory layernorm_decomposed cache 1 threads: 1 kernels ")
