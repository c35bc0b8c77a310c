"""Networks of real blocks, drawn at random, compiled as users do: each output is right."""

import random
import time

import ml_dtypes
import numpy as np
import onnx
import pytest

from support.blocks.case import onnxruntime_outputs, same_bits, wrong
from support.blocks.graph import part
from support.blocks.networks import random_network
from support.blocks.reducer import Part, reduced, whole
from support.random_graphs.case import describe, mismatches
from support.random_graphs.values import numpy_dtype

FIXED = range(14)  # scripts/check_all.py runs 10,000
CAUGHT = (1, 4, 7, 11)  # fail under the mutations of support/mutations/table.py
REFERENCES = range(30)


def check(seed):
    case = whole(seed)
    graph = case.graph()
    found = wrong(graph, case.way)
    assert not found, f"scripts/reduce_blocks.py {seed}\n{case.way}\n{describe(graph)}"


@pytest.mark.parametrize(
    "seed", [*CAUGHT, *(pytest.param(s, marks=pytest.mark.long) for s in FIXED if s not in CAUGHT)]
)
def test_a_network_gives_what_numpy_gives(seed):
    check(seed)


def test_onnx_runtime_gives_what_numpy_gives():
    compared = 0
    for seed in REFERENCES:
        graph = random_network(random.Random(seed))
        onnx.checker.check_model(graph.model(), full_check=True)
        # Its ReduceMax keeps NaN or not by the axes.
        outputs = onnxruntime_outputs(graph) if graph.is_finite() else None
        if outputs is not None:
            assert not mismatches(graph, outputs), seed
            compared += 1
    assert compared > len(REFERENCES) / 2


@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
def test_results_are_the_same_by_all_bits_but_those_of_nan(dtype):
    numbers = np.array([1.0, np.nan, 0.0]).astype(dtype)
    assert same_bits(numbers, -np.abs(numbers) * np.array([-1, 1, -1]).astype(dtype))
    assert not same_bits(numbers, numbers * np.array([1, 1, -1]).astype(dtype))


def test_a_part_of_a_network_has_the_numbers_of_the_whole():
    for seed in range(20):
        graph = random_network(random.Random(seed))
        made = [value.name for value in graph.values if value.name in graph.steps]
        half = part(graph, made[-1:], made[: len(made) // 2])
        onnx.checker.check_model(half.model(), full_check=True)
        known = next(value for value in graph.values if value.name == made[-1])
        if graph.is_finite():
            numbers = known.lanes[1].astype(numpy_dtype(known.dtype))
            assert not mismatches(half, [numbers]), seed


def test_a_network_is_reduced_to_the_operator_that_fails():
    def fails(case):
        return any(node.op_type == "Softmax" for node in case.graph().nodes)

    seed = next(s for s in range(100) if fails(Part(s, whole(s).way)))
    smallest = reduced(whole(seed), fails, time.monotonic() + 60)
    assert [node.op_type for node in smallest.graph().nodes] == ["Softmax"]
    assert Part.from_json(smallest.to_json()) == smallest
