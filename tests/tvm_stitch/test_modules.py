"""tvm_stitch.compile of a torch.nn.Module: exported on example inputs, as it was behind it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/check_pythons.py)")

import tvm_stitch  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drop = torch.nn.Linear(6, 5), torch.nn.Dropout()

    def forward(self, x):
        return self.drop(torch.relu(self.inner(x)))


class ByData(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


@pytest.mark.parametrize("by_name", [False, True])
def test_a_module_is_exported_in_eval_mode_and_stays_as_it_was(by_name: bool):
    net, x = Net(), torch.randn(3, 6)
    net.inner.eval()
    modes = [each.training for each in net.modules()]
    made = (
        tvm_stitch.compile(net, example_inputs=(x,)) if by_name else tvm_stitch.compile(net, (x,))
    )
    assert [each.training for each in net.modules()] == modes
    with torch.no_grad():
        torch.testing.assert_close(torch.from_dlpack(made(x)), net.eval()(x))


def test_a_module_alone_is_told_what_it_needs():
    with pytest.raises(tvm_stitch.StitchError, match="example_inputs"):
        tvm_stitch.compile(Net())


def test_what_torch_does_not_export_is_one_line():
    with pytest.raises(tvm_stitch.StitchError, match=r"torch\.export refuses it") as caught:
        tvm_stitch.compile(ByData(), (torch.randn(3),))
    assert "\n" not in str(caught.value)


def test_no_other_model_takes_example_inputs():
    with pytest.raises(tvm_stitch.StitchError, match=r"only a torch\.nn\.Module"):
        tvm_stitch.compile("model.onnx", example_inputs=(torch.randn(3),))
