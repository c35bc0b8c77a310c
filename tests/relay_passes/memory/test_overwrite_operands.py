"""Graphs whose kernels write over operands: which may be is a matter of who else reads them."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import onnxruntime
import pytest
from zoo.graph import Graph

import tvm_stitch
from support.kernels import stitch_case as sc
from support.random_graphs.case import all_parallel, describe, mismatches
from support.random_graphs.graphs import random_graph


def unary(*names: str, results: tuple[int, ...] = ()) -> Graph:
    """Operators in a row, some of whose results the model returns too."""
    g = Graph("row")
    x = g.input("x", (8, 32))
    for number, name in enumerate(names):
        x = g.op(name, x)
        if number in results or number == len(names) - 1:
            g.output(x, f"y{number}", (8, 32))
            x = f"y{number}"
    return g


def two_readers() -> Graph:
    """The first reader of `a` may not write over it, the second may."""
    g = Graph("two readers")
    a = g.op("Exp", g.input("x", (8, 32)))
    b = g.op("Neg", a)
    c = g.op("Mul", a, b)
    g.output(g.op("Sqrt", g.op("Abs", c)), "y", (8, 32))
    return g


def read_as_a_view() -> Graph:
    g = Graph("view")
    a = g.op("Exp", g.input("x", (8, 32)))
    view = g.op("Reshape", a, g.constant([32, 8], "int64"))
    g.output(g.op("Neg", a), "y", (8, 32))
    g.output(g.op("Sqrt", view), "z", (32, 8))
    return g


def through_a_view() -> Graph:
    g = Graph("through a view")
    a = g.op("Exp", g.input("x", (8, 32)))
    view = g.op("Reshape", a, g.constant([32, 8], "int64"))
    g.output(g.op("Sqrt", g.op("Abs", view)), "y", (32, 8))
    return g


def read_twice() -> Graph:
    g = Graph("read twice")
    a = g.op("Exp", g.input("x", (8, 32)))
    b = g.op("Mul", a, a)
    g.output(g.op("Sqrt", b), "y", (8, 32))
    return g


def of_a_weight() -> Graph:
    g = Graph("weight")
    b = g.op("Mul", g.weight("w", (8, 32)), g.input("x", (1, 1)))
    g.output(g.op("Exp", b), "y", (8, 32))
    return g


GRAPHS = {
    "a-row": (unary("Exp", "Neg", "Abs", "Sqrt"), 2),
    "input-and-result": (unary("Exp", "Neg"), 0),
    "results": (unary("Exp", "Neg", "Abs", "Sqrt", results=(0, 1)), 0),
    "a-result-on-the-way": (unary("Exp", "Neg", "Abs", "Sqrt", results=(1,)), 0),
    "two-readers": (two_readers(), 2),
    "a-view": (read_as_a_view(), 0),
    "through-a-view": (through_a_view(), 1),
    "twice": (read_twice(), 0),
    "weight": (of_a_weight(), 0),
}


@pytest.mark.long(every=4)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("threads", [1, 2])
def test_only_intermediates_that_die_are_overwritten(name, threads):
    graph, count = GRAPHS[name]
    model = graph.model()
    built = sc.compiled(model, threads, fusion="none")
    assert built.model.report.overwritten == count
    names = [call.op.name for call in sc.launches(built.mod)]
    assert names.count("relax.call_tir_inplace") == count
    feeds = {i.name: sc.zoo.random_inputs(model, 3)[i.name] for i in model.graph.input}
    kept = {key: array.copy() for key, array in feeds.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = dict(
        zip([o.name for o in model.graph.output], session.run(None, feeds), strict=True)
    )
    first = built.model.run(feeds)
    copies = {key: array.copy() for key, array in first.items()}
    again = built.model.run(feeds)
    for key, reference in expected.items():
        np.testing.assert_allclose(first[key], reference, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(first[key], copies[key])
        np.testing.assert_array_equal(first[key], again[key])
    for key, array in feeds.items():
        np.testing.assert_array_equal(array, kept[key])


def test_a_row_in_place_takes_the_memory_of_one_tensor():
    names = ("Exp", "Neg", "Abs", "Sqrt", "Exp")
    report = sc.compiled(unary(*names).model(), fusion="none").model.report
    tensor = 8 * 32 * 4
    assert report.peak_bytes_unshared == len(names) * tensor
    arena = tensor + 4096  # all intermediates; the page tells it from the result, as large
    assert report.peak_bytes == arena + tensor
    assert f"{len(names) - 2} written over an operand" in str(report)


def test_a_kernel_called_in_both_ways_is_there_twice():
    mod = sc.lowered(unary("Neg", "Exp", "Neg", "Sqrt").model(), fusion="none")
    gvars = [call.args[0].name_hint for call in sc.launches(mod)]
    assert len(gvars) == len(set(gvars)) == 4
    assert sum(name.endswith("_in_place") for name in gvars) == 2
    counts = {name: len(mod[name].params) for name in gvars}
    assert sorted(counts.values()) == [1, 1, 2, 2]


@pytest.mark.long
@pytest.mark.parametrize("parallel", [False, True])
def test_random_graphs_a_kernel_an_op_give_what_numpy_gives(parallel):
    """Fused, such graphs are a kernel or two: there is hardly an operand to write over."""
    overwritten = 0
    for seed in range(20):
        graph = random_graph(random.Random(seed))
        with all_parallel() if parallel else contextlib.nullcontext():
            model = tvm_stitch.compile(graph.model(), fusion="none", threads=2)
        for _ in range(2):
            outputs = list(model.run(graph.feeds()).values())
            assert not mismatches(graph, outputs), f"seed {seed}\n{describe(graph)}"
        overwritten += model.report.overwritten
    assert overwritten > 12
