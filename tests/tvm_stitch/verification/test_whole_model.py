"""What is wrong though each kernel is right: a rewrite before there are kernels, named by fuel."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest
from onnx import helper
from tvm import relax
from tvm.relax import op

import tvm_stitch
from relay_passes.rewrites import fold_small
from support.models import relax_models as rm
from support.models.runtime import linear, onnx_model
from tvm_stitch.frontend.relax_graph import fold_scales
from tvm_stitch.runtime.model import Model
from tvm_stitch.verification.kernels import Finding
from tvm_stitch.verification.verification import Verification


def scaled() -> onnx.ModelProto:
    """Return y = (x @ w) * scale + x: a scale that is folded into the weight."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Mul", ["product", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "x"], ["y"]),
    ]
    weights = {
        "w": rng.standard_normal((32, 32), np.float32),
        "scale": rng.standard_normal(32, np.float32),
    }
    return onnx_model(nodes, [("x", "float32", (4, 32))], [("y", "float32", (4, 32))], weights)


def only(found: Verification) -> Finding:
    """Return what is found, which is nothing of a kernel."""
    (finding,) = found.findings
    assert (finding.kernel, finding.operators, finding.group) == ("the whole model", (), None)
    assert "result 0 at" in finding.problem
    return finding


def test_a_wrong_rewrite_of_the_importer_is_named_and_no_kernel_is_taken_apart(monkeypatch):
    right = fold_scales._folds

    def wrong(*args) -> list:
        return [dataclasses.replace(fold, array=-fold.array) for fold in right(*args)]

    monkeypatch.setattr(fold_scales, "_folds", wrong)
    with pytest.raises(tvm_stitch.StitchError) as error:
        tvm_stitch.compile(scaled(), threads=2, verify=True, on_mismatch="unfuse")
    assert "the whole model, given random inputs of seed 0, is wrong" in str(error.value)
    assert "makes it wrong: fold_scales at Mul 'scaled'" in str(error.value)


def test_a_wrong_rewrite_of_a_pass_is_named(monkeypatch):
    def emit(builder: relax.BlockBuilder, x: relax.Var) -> relax.Var:
        five = builder.emit(op.add(relax.const(2.0), relax.const(3.0)))
        return builder.emit(op.multiply(op.exp(x), five))

    right = fold_small.evaluate
    monkeypatch.setattr(fold_small, "evaluate", lambda *args: [1 + v for v in right(*args)])
    finding = only(tvm_stitch.verify(rm.module(emit, *rm.arrays((4, 32))), threads=2))
    assert "makes it wrong: FoldSmallConstants at add" in finding.problem


def test_what_no_rewrite_makes_wrong_is_said_to_be_so(monkeypatch):
    right = Model.run
    monkeypatch.setattr(Model, "run", lambda *args: {k: 1 + v for k, v in right(*args).items()})
    finding = only(tvm_stitch.verify(linear()[0], threads=2))
    assert finding.problem.endswith(
        "wrong without any rewrite: its import, its legalisation, or TVM"
    )
