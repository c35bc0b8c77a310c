"""A model that is verified while it is compiled: wrong, it is refused, or taken apart and right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from tvm import tirx

import tvm_stitch
from relay_passes.fusion.take_apart import take_apart
from relay_passes.graph.fusion_plan import FusionPlan
from support.fusion_plans import names, outer_product_read_twice, planned
from support.kernels import stitch_case as sc
from support.models.runtime import linear, linear_reference
from tir_schedules.cpu import template
from tir_schedules.cpu.emit.arithmetic import expr as emit_expr
from tvm_stitch.cli import main
from tvm_stitch.reports.report import Report

WRONG_OPS = ["packed_matmul of MatMul 'product'", "add of Add 'sum'", "relu of Relu 'y'"]


@pytest.fixture
def three_are_wrong(monkeypatch) -> Iterator[None]:
    """A maximum loses NaN in kernels of more than three tensors: not in what they are made of."""
    right = template.emit_plan

    def emit(plan, func, over) -> tirx.PrimFunc:
        with pytest.MonkeyPatch.context() as patch:
            if len(func.params) > 3:
                patch.setattr(emit_expr, "nan_max", tirx.Max)
            return right(plan, func, over)

    monkeypatch.setattr(template, "emit_plan", emit)


@pytest.mark.long(every=2)
@pytest.mark.parametrize(("fusion", "kernels"), [("stitch", 2), ("tvm", 3)])
def test_a_wrong_group_is_taken_apart_and_reported(three_are_wrong, fusion, kernels):
    """Ours in halves; TVM's, of which no part is planned, in operators."""
    proto, weights = linear()
    model = tvm_stitch.compile(proto, verify=True, on_mismatch="unfuse", fusion=fusion)
    assert model.report.kernels == kernels
    (unfused,) = Report.from_json(model.report.to_json()).unfused
    assert unfused.ops == WRONG_OPS
    assert "not nan" in unfused.problem
    assert "taken apart: packed_matmul of MatMul 'product', add" in str(model.report)
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    expected = linear_reference(x, weights)
    np.testing.assert_allclose(model.run({"input.1": x})["y"], expected, 1e-5, 1e-4)


def test_a_wrong_model_is_refused_in_one_line(three_are_wrong, tmp_path, capsys):
    path, library = tmp_path / "linear.onnx", tmp_path / "linear.so"
    onnx.save(linear()[0], path)
    assert main(["compile", str(path), "-o", str(library), "--verify"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"({', '.join(WRONG_OPS)}), given" in line
    assert line.endswith("on_mismatch='unfuse', and report what tvm-stitch verify writes of it")
    assert not library.exists()


def test_a_kernel_of_one_operator_that_is_wrong_is_an_error(monkeypatch):
    monkeypatch.setattr(emit_expr, "nan_max", tirx.Max)
    with pytest.raises(tvm_stitch.StitchError, match=r"relu \(relu of Relu 'y'\), given a NaN"):
        tvm_stitch.compile(linear()[0], verify=True, on_mismatch="unfuse")


def test_a_right_model_is_compiled_as_it_is(tmp_path, capsys):
    path, library = tmp_path / "linear.onnx", tmp_path / "linear.so"
    onnx.save(linear()[0], path)
    given = ["compile", str(path), "-o", str(library), "--verify", "--on-mismatch", "unfuse"]
    assert main(given) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert tvm_stitch.load(library).report.unfused == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"on_mismatch": "unfuse"}, "without verification no mismatch is found"),
        ({"on_mismatch": "ignore", "verify": True}, "use one of refuse, unfuse"),
    ],
)
def test_what_to_do_about_a_mismatch_is_one_of_two_and_needs_verification(options, reason):
    with pytest.raises(tvm_stitch.StitchError, match=reason):
        tvm_stitch.compile(linear()[0], **options)


def test_where_an_op_was_copied_it_is_copied_no_more_and_then_the_group_is_taken_apart():
    plan = planned(outer_product_read_twice().mod)
    (first, _, last, _) = plan.groups
    assert names(first) == ["multiply", "add", "tir_exp"]
    assert names(last) == ["multiply", "multiply1", "tir_tanh"]
    copied_no_more = apart(plan, {last.signature()})
    (first, _, last, _) = copied_no_more.groups
    assert names(first) == ["multiply", "add", "tir_exp"]
    assert names(last) == ["multiply1", "tir_tanh"]
    parts = apart(plan, {plan.groups[2].signature(), first.signature()})
    assert [names(g) for g in parts.groups[:2]] == [["multiply"], ["add", "tir_exp"]]


def apart(plan: FusionPlan, wrong: set) -> FusionPlan:
    """Return a plan without groups, in which each op of the plan is in one group."""
    made = take_apart(plan, frozenset(wrong), sc.device())
    ops = sorted(n.index for group in made.groups for n in group.nodes)
    assert ops == [n.index for n in plan.graph.nodes]
    assert take_apart(made, frozenset(wrong), sc.device()).groups == made.groups
    return made
