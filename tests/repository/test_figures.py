"""Figures are of one committed tree, and of a machine that did nothing else."""

import bench_models
import bench_plans
import pytest
from readme_results import section


def timed(peer, us):
    timing = us and {"median_us": us}
    return {"peer": peer, "timing": timing, "facts": {"kernels": 3}, "reason": None}


def models(commit):
    peers = [timed("stitch", 2e3), timed("onnxruntime", 3e3), timed("openvino-default", 1e3)]
    row = {"name": "bert", "peers": [*peers, timed("inductor", None)]}
    return {"command": "x", "commit": commit, "mcpu": "znver4", "threads": 2, "rows": [row]}


def products(commit):
    us = {"stitch": 4.0, "onnxruntime": 5.0, "openvino": 6.0, "fma-peak": 1.0}
    return {"commit": commit, "rows": [{"us": us}, {"us": {**us, "onnxruntime": 3.0}}]}


def test_the_results_name_the_best_peer_of_full_precision_and_the_lowest_row():
    text = section({"bench_models": models("abc"), "bench_gemm": products("abc")})
    assert "takes 1.50 times as long as we do in the mean, 1.50 at the least" in text
    assert "[2 matrix products](docs/results/bench_gemm.md)" in text
    assert "0.97 in the mean, 0.75 at the least, against onnxruntime, openvino" in text
    assert "| bert | 3 | 2.00 | 3.00 | 1.00 | - | 1.50 |" in bench_models.table(models("abc"))


@pytest.mark.parametrize("other", ["abd", "abc-dirty"])
def test_results_of_several_trees_are_refused(other):
    with pytest.raises(ValueError, match=f"bench_models abc, bench_gemm {other}"):
        section({"bench_models": models("abc"), "bench_gemm": products(other)})


def test_results_of_a_tree_that_is_no_commit_are_refused():
    with pytest.raises(ValueError, match="uncommitted"):
        section({"bench_models": models("abc-dirty")})


def plans(ours, spread=0.01):
    each = {"us": 100.0, "spread": 0.01}
    return {
        bench_plans.OURS: {"us": ours, "spread": spread},
        bench_plans.FIRST: {"us": 100.0, "spread": 0.5},
        bench_plans.STOCK: each,
        bench_plans.NONE: each,
    }


def test_a_plan_is_slower_beyond_the_spread_only():
    assert bench_plans.slower({"plans": plans(105.0)})
    assert not bench_plans.slower({"plans": plans(103.0)})


def test_rounds_that_lie_far_apart_are_refused_and_not_waved_through():
    assert bench_plans.busy(plans(140.0)) is None
    assert bench_plans.busy(plans(140.0, spread=0.2)) == "explorer spreads by 20.0%, at most 5%"


def test_the_table_of_models_is_of_the_peers_that_ran():
    header = bench_models.table(models("abc")).splitlines()[2]
    assert header.split(" | ")[3:-1] == ["onnxruntime", "openvino-default", "inductor"]
