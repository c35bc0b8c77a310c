"""`verify` finds nothing wrong with right models, and names what was made wrong in others."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stitch_case as sc  # noqa: F401 - it puts the zoo on the path
import zoo
from runtime_models import linear
from zoo.graph import Graph

import tvm_stitch
from relay_passes import lifetimes, plan_memory
from tvm_stitch.cli import main


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
