"""Random graphs compiled and run: each output is what NumPy says, as far as rounding allows."""

import contextlib
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from support.random_graphs.case import all_parallel, describe, mismatches, random_plans, run_graph
from support.random_graphs.graphs import random_graph

EXAMPLES = 25  # a test; scripts/check_all.py runs 10,000 graphs

graphs = st.randoms(use_true_random=False).map(random_graph)
few = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # shrinking compiles hundreds of graphs
    suppress_health_check=list(HealthCheck),
)


def check(graph, parallel):
    note(describe(graph))
    with all_parallel() if parallel else contextlib.nullcontext():
        outputs = run_graph(graph)
    assert not mismatches(graph, outputs)


@few
@given(graphs)
def test_a_random_graph_gives_what_numpy_gives(graph):
    check(graph, parallel=False)


@pytest.mark.long
@few
@given(graphs)
def test_a_random_graph_with_every_kernel_parallel_gives_what_numpy_gives(graph):
    check(graph, parallel=True)


@pytest.mark.long
@few
@given(graphs, st.integers(0, 1 << 30))
def test_a_random_plan_of_a_random_graph_gives_what_numpy_gives(graph, seed):
    with random_plans(seed):
        check(graph, parallel=seed % 2 == 0)


def test_random_plans_join_ops_and_differ_from_each_other():
    counts = set()
    for seed in range(4):
        with random_plans(seed) as plans:
            run_graph(random_graph(random.Random(14)))
        counts.add(tuple(tuple(len(g.nodes) for g in plan.groups) for plan in plans))
        assert any(plan.merges for plan in plans)
    assert len(counts) > 1


@pytest.mark.long
@pytest.mark.parametrize("first", [0, 25])
def test_graphs_drawn_from_seeds_give_what_numpy_gives(first):
    for seed in range(first, first + 25):
        graph = random_graph(random.Random(seed))
        wrong = mismatches(graph, run_graph(graph))
        assert not wrong, f"seed {seed}\n{describe(graph)}"


def test_a_seed_draws_the_same_graph_again():
    first, second = (random_graph(random.Random(7)) for _ in range(2))
    assert first.model() == second.model()
    for name, array in first.feeds().items():
        np.testing.assert_array_equal(array, second.feeds()[name])


@pytest.fixture
def product():
    """x * 3 and its outputs as NumPy gives them."""
    graph = random_graph(random.Random(7))
    graph.nodes, graph.values, graph.inputs = [], [], []
    value = graph.input((4, 5), "float32")
    graph.outputs = [graph.rounded("Mul", np.multiply, [value, graph.constant(3, "float32")])]
    return graph, graph.outputs[0].lanes[1].astype("f4")


def test_the_answer_of_numpy_is_right(product):
    graph, right = product
    assert mismatches(graph, [right]) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda x: x + 1e-3, "20 of 20 differ", id="error"),
        pytest.param(lambda x: x * np.nan, "NaN or infinity", id="nan"),
        pytest.param(lambda x: x.astype("f8"), "got float64[4, 5]", id="dtype"),
        pytest.param(lambda x: x[:2], "got float32[2, 5]", id="shape"),
    ],
)
def test_a_wrong_answer_is_found(product, change, reason):
    graph, right = product
    (found,) = mismatches(graph, [change(right)])
    assert reason in found
