"""A workload's text read back: the same kernel; what is none is refused with its line."""

from __future__ import annotations

from random import Random

import pytest

from support.random_graphs.graphs import random_graph
from support.tuning.kernels import KERNELS, device
from tir_schedules.tuning.candidates import Candidates
from tir_schedules.tuning.features import features
from tir_schedules.tuning.workload import workload_of
from tir_schedules.tuning.workload_reader import WorkloadError, read_workload
from tvm_stitch.build import Request
from tvm_stitch.tuning.tasks import tasks_of

GRAPHS = 12


def check(candidates: Candidates) -> None:
    again = read_workload(candidates.workload.text)
    assert workload_of(again) == candidates.workload
    plan = candidates.backend.plan(again, candidates.default, candidates.device)
    usual = candidates.plan(candidates.default)
    assert features(plan, candidates.device) == features(usual, candidates.device)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_read_as_it_was_written(name):
    check(Candidates.of(KERNELS[name](), device()))


def test_kernels_of_random_graphs_are_read_as_they_were_written():
    for seed in range(GRAPHS):
        for task in tasks_of(Request(random_graph(Random(seed)).model(), threads=2)).tasks:
            check(task.candidates)


GOOD = """t0 float32[4 3]
t1 float32[4]
  n0 = t0[a0 a1]
for a0:4 a1r:3: t1[a0] = sum from 0.0 n0
return t1"""


def test_the_good_one_is_good():
    assert workload_of(read_workload(GOOD)).text == GOOD


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("return t1", "", "line 5: '' is no line of a workload"),
        ("\nreturn t1", "", "the text ends before its results"),
        ("return t1", "return t7", "line 5: list index out of range"),
        ("t0 float32", "t5 float32", "line 1: t5 is not the next tensor"),
        ("float32[4 3]", "string[4 3]", "line 1: 'string' is not as a workload has it"),
        ("[4 3]", "[4 99999999999]", "line 1: an extent of 99999999999"),
        ("a1r:3", "a1r:2147483648", "line 4: an extent of 2147483648"),
        ("t0[a0 a1]", "t0[a0]", "line 4: t0 has 2 axes, not 1"),
        ("t0[a0 a1]", "t0[a0 n0]", "line 4: list index out of range"),
        ("t0[a0 a1]", "t0[a0 a2]", "line 4: 'a2'"),
        ("  n0", "  n4", "line 4: n4 is not the next node"),
        ("a1r:3", "a5r:3", "line 4: axes are not numbered"),
        ("sum from 0.0 n0", "sum from zero n0", "line 4: could not convert"),
        ("sum from 0.0 n0", "n0", "line 4: ' n0' is not as a workload has it"),
        ("t0[a0 a1]", "t1[a0]", "line 4: t1 is read before it is made"),
        ("return t1", "return t1\nreturn t1", "line 6: something follows the results"),
    ],
)
def test_what_is_no_workload_is_refused_with_its_line(old, new, told):
    assert GOOD.count(old) == 1
    with pytest.raises(WorkloadError) as error:
        read_workload(GOOD.replace(old, new))
    assert str(error.value).startswith(told)


def test_a_node_of_another_stage_is_refused():
    text = GOOD.removesuffix("return t1") + "t2 float32[4]\nfor a2:4: t2[a2] = n0\nreturn t1 t2"
    with pytest.raises(WorkloadError, match="line 6: n0 has axes of another stage"):
        read_workload(text)
