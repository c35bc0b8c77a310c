"""torch.export programs through import_model."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tvm_stitch
from support.frontend.case import run_stock
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import import_model

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.linear = torch.nn.Linear(8, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.register_buffer("offset", torch.linspace(0, 1, 400).reshape(100, 4))

    def forward(self, ids, scale):
        x = self.norm(self.linear(self.embed(ids))) * scale + self.offset[:3]
        return {"hidden": x, "best": x.argmax(-1)}


def exported(**kwargs):
    torch.manual_seed(0)
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    args = (ids, torch.ones(4))
    return torch.export.export(Net().eval(), args, **kwargs), args


def test_a_program_keeps_names_weights_and_values():
    program, args = exported()
    imported = import_model(program)
    assert [spec.name for spec in imported.inputs] == ["ids", "scale"]
    assert [spec.name for spec in imported.outputs] == ["hidden", "best"]
    want = program.module()(*args)
    feeds = {"ids": args[0].numpy(), "scale": args[1].numpy()}
    for got, key in zip(run_stock(imported, feeds), ("hidden", "best"), strict=True):
        np.testing.assert_allclose(got, want[key].detach().numpy(), rtol=1e-5, atol=1e-6)


def test_parameters_are_views_and_buffers_leave_the_graph():
    program, _ = exported()
    imported = import_model(program)
    parameter = program.state_dict["embed.weight"].detach().numpy()
    assert any(np.shares_memory(w, parameter) for w in imported.weights)
    assert len(imported.mod["main"].params) == 2 + len(imported.weights)
    shapes = [w.shape for w in imported.weights]
    assert (3, 4) in shapes  # of 100 places those that are read
    assert (100, 4) not in shapes


def test_embedding_ids_are_bounded():
    assert import_model(exported()[0]).index_bounds == {"ids": (0, 10)}


def test_dynamic_extents_are_bound_by_shapes():
    batch = torch.export.Dim("batch", min=2, max=64)
    program, _ = exported(dynamic_shapes={"ids": {0: batch}, "scale": None})
    with pytest.raises(StitchError, match=r"'ids'.*--shape ids="):
        import_model(program)
    imported = import_model(program, {"ids": (5, 3)})
    assert imported.outputs[0].shape == (5, 3, 4)
    with pytest.raises(StitchError, match="contradicts"):
        import_model(program, {"ids": (5, 4)})


def test_an_extent_that_follows_from_another_is_bound_with_it():
    class Both(torch.nn.Module):
        def forward(self, x, y):
            return torch.cat([x, x]) + y

    n = torch.export.Dim("n", min=2, max=64)
    program = torch.export.export(
        Both(), (torch.ones(3, 4), torch.ones(6, 4)), dynamic_shapes={"x": {0: n}, "y": {0: 2 * n}}
    )
    imported = import_model(program, {"x": (5, 4), "y": (10, 4)})
    assert imported.outputs[0].shape == (10, 4)
    assert import_model(program, {"x": (5, 4)}).inputs[1].shape == (10, 4)
    with pytest.raises(StitchError, match="9 contradicts"):
        import_model(program, {"x": (5, 4), "y": (9, 4)})


def test_bfloat16_parameters_are_views():
    layer = torch.nn.Linear(4, 2).to(torch.bfloat16)
    program = torch.export.export(layer, (torch.ones(3, 4, dtype=torch.bfloat16),))
    imported = import_model(program)
    assert imported.inputs[0].dtype == "bfloat16"
    assert {w.dtype for w in imported.weights} == {np.dtype(ml_dtypes.bfloat16)}


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_products_keep_the_type_of_their_operands(dtype):
    kind = getattr(torch, dtype)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    x = torch.rand(1, 3, 4, 4, dtype=kind)
    program = torch.export.export(net.to(kind).eval(), (x,))
    imported = import_model(program)
    assert imported.outputs[0].dtype == dtype
    (got,) = run_stock(imported, {imported.inputs[0].name: x.numpy()})
    want = net(x).detach().numpy()
    np.testing.assert_allclose(got, want, rtol=2e-2 if dtype == "float16" else 1e-12, atol=1e-3)


def test_tied_parameters_are_stored_once():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(600, 512)
            self.head = torch.nn.Linear(512, 600, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    net, ids = Tied().eval(), torch.tensor([1, 599])
    imported = import_model(torch.export.export(net, (ids,)))
    assert sum(w.nbytes for w in imported.weights) == 600 * 512 * 4
    (got,) = run_stock(imported, {"ids": ids.numpy()})
    np.testing.assert_allclose(got, net(ids).detach().numpy(), rtol=1e-4, atol=1e-4)


def test_convolutions_are_laid_out_as_those_of_onnx():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3),
        torch.nn.ReLU(), torch.nn.ConvTranspose2d(32, 16, 2, 2),
    ).eval()  # fmt: skip
    x = torch.rand(1, 16, 12, 12)
    model = tvm_stitch.compile(torch.export.export(net, (x,)))
    ops = {op.rstrip("0123456789") for group in model.report.groups for op in group.ops}
    assert not ops & {"conv2d", "conv2d_transpose"}
    got, want = np.from_dlpack(model(x)), net(x).detach().numpy()
    assert np.all(np.abs(got - want) <= 1e-5 * (np.abs(want) + np.abs(want).max()))


class LastStep(torch.nn.Module):
    """The last step of a sequence: an index that counts from the end."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:, -1] * 2, x[-2, :, -3]


def test_a_selected_position_may_count_from_the_end():
    x = torch.randn(4, 5, 6)
    model = tvm_stitch.compile(torch.export.export(LastStep(), (x,)), threads=1)
    for got, expected in zip(model(x), LastStep()(x), strict=True):
        torch.testing.assert_close(torch.from_dlpack(got), expected)


class Attended(torch.nn.Module):
    def forward(self, q, k, v, mask):
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = y.transpose(1, 2)
        return y.reshape(*y.shape[:2], -1).contiguous().view(-1, 64)


def test_a_view_of_attention_may_copy_since_decomposed_it_has_other_strides():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 12, 4, 16).transpose(1, 2) for _ in range(3))
    mask = torch.randn(2, 1, 12, 12)
    program = torch.export.export(Attended().eval(), (q, k, v, mask))
    targets = [node.target for node in program.graph.nodes]
    with pytest.raises(ValueError, match="Cannot view"):
        program.run_decompositions()
    model = tvm_stitch.compile(program)
    got = torch.from_dlpack(model(*(x.contiguous() for x in (q, k, v)), mask))
    assert torch.allclose(got, Attended()(q, k, v, mask), atol=1e-5)
    assert [node.target for node in program.graph.nodes] == targets
