"""`verify` finds nothing wrong with right models, and names what was made wrong in others."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
import zoo
from tvm import tirx
from zoo.graph import Graph

import tvm_stitch
from relay_passes.memory import lifetimes, plan_memory
from support.models.runtime import linear
from tir_schedules.cpu.emit.arithmetic import expr as emit_expr
from tvm_stitch.cli import main
from tvm_stitch.verification import replay


def chain() -> onnx.ModelProto:
    """Two products with a residual around them: intermediates that live long."""
    g = Graph("chain")
    rng = np.random.default_rng(0)
    x = g.input("x", (64, 96))
    for _ in range(3):
        weight = g.constant(rng.standard_normal((96, 96)).astype(np.float32) / 10)
        product = g.op("MatMul", x, weight)
        x = g.op("Add", product, g.op("Softmax", g.op("Relu", product), axis=0))
    g.output(x, "y", (64, 96))
    return g.model()


def test_a_right_model_is_found_right():
    found = tvm_stitch.verify(linear()[0], threads=2)
    assert found
    assert found.checked.calls == len(found.checked.kernels) > 0
    assert str(found).endswith(": 0 wrong")


@pytest.mark.long
@pytest.mark.parametrize("fusion", ["stitch", "tvm"])
def test_every_fusion_of_a_transformer_is_found_right(fusion):
    model = zoo.model("bert", **zoo.SMALL["bert"])
    assert tvm_stitch.verify(model, threads=2, fusion=fusion)


def test_tensors_that_share_memory_while_both_live_are_found(monkeypatch):
    monkeypatch.setattr(plan_memory._Span, "meets", lambda self, other: False)
    found = tvm_stitch.verify(chain(), threads=2, fusion="none")
    assert not found
    assert "lies where it writes" in found.findings[0].problem
    assert "Relu" in str(found.findings[0])


def test_an_operand_that_is_written_over_too_early_is_found(monkeypatch):
    monkeypatch.setattr(lifetimes.Lifetimes, "dies_at", lambda self, made, var: True)
    found = tvm_stitch.verify(chain(), threads=2, fusion="none")
    assert not found
    assert "is not as" in found.findings[0].problem


def test_what_only_a_nan_shows_is_found_and_replayed(monkeypatch, tmp_path, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(emit_expr, "nan_max", tirx.Max)
        found = tvm_stitch.verify(linear()[0], threads=2, reproducers=tmp_path)
    (finding,) = found.findings
    assert finding.given == "-inf in places in input 0"  # of which sums are NaN
    assert [str(operator) for operator in finding.operators] == [
        "packed_matmul of MatMul 'product'",
        "add of Add 'sum'",
        "relu of Relu 'y'",
    ]
    assert finding.reproducer.parent == tmp_path
    monkeypatch.setattr(sys, "argv", ["replay", str(finding.reproducer)])
    assert replay.main() == 1
    assert "is nan" in finding.problem or "not nan" in finding.problem
    assert capsys.readouterr().out == f"{str(finding).splitlines()[0]}\n"


def test_a_folder_that_is_no_reproducer_is_a_users_mistake(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["replay", str(tmp_path)])
    assert replay.main() == 1
    assert "give a reproducer's folder" in capsys.readouterr().err


def test_the_command_says_what_it_found(tmp_path, capsys):
    path = tmp_path / "linear.onnx"
    onnx.save(linear()[0], path)
    assert main(["verify", str(path), "--threads", "2", "--seed", "3"]) == 0
    assert capsys.readouterr().out.endswith(": 0 wrong\n")


def test_inputs_come_from_a_folder(tmp_path, capsys):
    path = tmp_path / "linear.onnx"
    onnx.save(linear()[0], path)
    assert main(["verify", str(path), "--inputs", str(tmp_path)]) == 1
    assert "input.1.npy: No such file" in capsys.readouterr().err
    np.save(tmp_path / "input.1.npy", np.ones((4, 64), np.float32))
    assert main(["verify", str(path), "--inputs", str(tmp_path)]) == 0
