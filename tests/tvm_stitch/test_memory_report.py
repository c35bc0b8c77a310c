"""What a report says of memory: tensors whose lifetimes do not meet share it."""

from __future__ import annotations

import pytest
from zoo.graph import Graph

import tvm_stitch

TENSOR = 64 * 64 * 4
PAGE = 4096


def products(count: int, results: int) -> Graph:
    g = Graph("products")
    x = g.input("x", (64, 64))
    for number in range(count):
        x = g.op("MatMul", x, g.weight(f"w{number}", (64, 64)))
        if number >= count - results:
            g.output(x, f"y{number}", (64, 64))
    return g


@pytest.mark.parametrize(("count", "arena"), [(1, 0), (2, TENSOR + PAGE), (5, 2 * TENSOR)])
def test_intermediates_in_a_row_take_turns_in_two_buffers(count, arena):
    report = tvm_stitch.explain(products(count, 1).model(), fusion="none")
    assert report.kernels == count
    assert report.peak_bytes_unshared == count * TENSOR
    assert report.peak_bytes == TENSOR + arena  # one tensor alone is not as large as the result
    assert "intermediates" in str(report)
