"""What `verify` finds: mutations; scripts/check_all.py tries them all, and the tests on them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import zoo

import tvm_stitch
from support import ROOT
from support.mutations import models as mutation_models
from support.mutations.case import judged
from support.mutations.mutation import Mutation, mutated
from support.mutations.table import MUTATIONS
from tir_schedules.kernel_ir.stage import Reduction


@pytest.mark.parametrize("name", ["identity", "first_reader"])
def test_a_mutation_is_found_and_named(name):
    answer = judged(MUTATIONS[name])
    assert answer["wrong"] == [], answer["finding"]


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutation_still_has_its_place_and_its_model(mutation: Mutation):
    assert mutation.changed().__code__.co_code
    assert callable(getattr(mutation_models, mutation.model))


def test_ci_runs_the_test_of_each_mutation():
    tests = {mutation.test for mutation in MUTATIONS.values()}
    files = sorted({test.partition("::")[0] for test in tests})
    options = ["--collect-only", "-q", "-o", "addopts=--import-mode=importlib --strict-markers"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    run = {*told.stdout.splitlines()}
    assert tests <= {*run, *(case.partition("[")[0] for case in run)}


def test_a_mutation_is_gone_behind_its_block():
    right = Reduction.start.__code__
    with mutated(MUTATIONS["identity"]):
        assert Reduction.start.__code__ is not right
    assert Reduction.start.__code__ is right


# The mutations of these go unseen in the few random networks of CI.
UNSEEN = ("long_attention", "masked_attention", "softmax_rows", "row_maxima", "chain")


@pytest.mark.parametrize("name", UNSEEN)
def test_a_model_of_a_mutation_gives_what_onnx_runtime_gives(name):
    model = getattr(mutation_models, name)()
    feeds = zoo.random_inputs(model, seed=1)
    (got,) = tvm_stitch.compile(model, threads=2).run(feeds).values()
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
