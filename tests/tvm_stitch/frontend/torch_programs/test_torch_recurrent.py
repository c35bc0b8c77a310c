"""PyTorch's recurrent layers from torch.export: loops, never written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tvm_stitch

LAYERS = {
    "lstm": lambda: torch.nn.LSTM(12, 20, 2, bidirectional=True, batch_first=True),
    "lstm-no-bias": lambda: torch.nn.LSTM(12, 70, bias=False),
    "lstm-projected": lambda: torch.nn.LSTM(12, 40, 2, proj_size=7, bidirectional=True),
    "gru": lambda: torch.nn.GRU(12, 33),
    "gru-no-bias": lambda: torch.nn.GRU(12, 33, 2, bias=False, bidirectional=True),
    "rnn-tanh": lambda: torch.nn.RNN(12, 64, 2),
    "rnn-relu": lambda: torch.nn.RNN(12, 64, nonlinearity="relu", bidirectional=True),
}


def compared(module: torch.nn.Module, inputs: tuple) -> tvm_stitch.Report:
    with torch.no_grad():
        want = torch.utils._pytree.tree_leaves(module(*inputs))
    made = tvm_stitch.compile(torch.export.export(module, inputs))
    leaves = torch.utils._pytree.tree_leaves(inputs)
    got = made(*(leaf.numpy() for leaf in leaves))
    for one, other in zip(got, want, strict=True):
        reference = other.numpy()
        error = np.abs(one.numpy() - reference)
        assert (error <= 1e-5 * (np.abs(reference) + np.abs(reference).max())).all()
    return made.report


@pytest.mark.long(every=6)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name: str):
    report = compared(LAYERS[name]().eval(), (torch.randn(6, 9, 12),))
    assert not report.unrolled
    assert report.fallbacks == 0


def test_a_layer_with_states():
    states = torch.randn(2, 3, 16), torch.randn(2, 3, 16)
    module = torch.nn.LSTM(8, 16, bidirectional=True).eval()
    report = compared(module, (torch.randn(5, 3, 8), states))
    assert not report.unrolled


def test_weights_of_gates_are_not_stored_twice():
    module = torch.nn.LSTM(64, 128).eval()
    report = compared(module, (torch.randn(4, 2, 64),))
    stored = sum(p.numel() * 4 for p in module.parameters())
    assert report.weight_bytes <= stored + 4 * 512
