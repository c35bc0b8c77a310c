"""Random ONNX graphs from the list of operators: a sample of check_all's section `operators`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.onnx_ops.chain import OPERATORS, random_chain
from support.onnx_ops.compared import check

SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(st.integers(0, 2**32 - 1))
def test_a_random_graph_computes_what_the_reference_says(seed: int):
    try:
        chain = random_chain(seed)
    except ValueError:
        return
    answer = check(chain)
    assert not answer.wrong, f"seed {seed}: {answer.wrong}\n{chain}"


@pytest.mark.parametrize(
    "seed",
    [
        722,  # onnxsim takes a reduction over no axis for one over all
        187,  # TVM counts the elements of a slice of nothing below zero
        776,  # PRelu of a scalar has no channels
        1004,  # ONNX's body of Celu makes a list of a scalar
        1555,  # ONNX infers no shape of GroupNormalization
        3039810566,  # ONNX's evaluator sums channels of LRN as far as there are images,
        3329339946,  # takes numbers for absolute values in LpNormalization,
        3853768654,  # and slices from before the first element as NumPy does
        1144617316,  # as we did
        3721530169,  # its HardSwish of float64 has a slope of float32,
        1322831323,  # and a Gelu near 0 is what 1 + erf is rounded to
        122486628,  # a difference of 0.4 % of its terms, which three lanes hardly moved
        1352229256,  # a gathered index in a chain of divisions was written out 2^n times
        159320650,  # Gelu(-5), 6 % of which is rounded away
        3612501814,  # Erf of 2e-112, which float32 does not have
        1601348756,  # a truth value stays one when results are moved
    ],
)
def test_found_by_check_all(seed: int):
    answer = check(random_chain(seed))
    assert not answer.wrong and answer.refused is None


def test_a_wrong_answer_is_found(monkeypatch):
    from support.onnx_ops import compared

    real = compared._run
    monkeypatch.setattr(compared, "_run", lambda *args: [a + 1 for a in real(*args)])
    chain = next(c for c in map(random_chain, range(20)) if str(c).count("float32"))
    assert check(chain).wrong


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_becomes_a_node(name: str):
    wanted = name.partition("-")[0].replace("FMod", "Mod")
    assert any(first_of(seed, name) == wanted for seed in range(40))


def first_of(seed: int, name: str) -> str | None:
    try:
        return random_chain(seed, name).model.graph.node[0].op_type
    except ValueError:
        return None
