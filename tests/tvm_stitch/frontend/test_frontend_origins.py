"""Values of an imported module are known by the nodes of the user's model that make them."""

from __future__ import annotations

import torch
import zoo
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from support.models.runtime import linear
from tvm_stitch.frontend import import_model
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.frontend.origins import origin_of


def origins(imported: ImportedModel) -> list[tuple[str, str | None]]:
    """Return each call of `main` with the node it comes from."""
    bindings = [b for block in imported.mod["main"].body.blocks for b in block.bindings]
    calls = [b for b in bindings if isinstance(b.value, relax.Call)]
    return [(b.value.op.name, origin_of(b.var.name, imported.origins)) for b in calls]


def test_onnx_nodes():
    model, _ = linear()
    model.graph.node[1].name = "/head/Add"
    assert origins(import_model(model)) == [
        ("relax.matmul", "MatMul 'product'"),
        ("relax.add", "Add '/head/Add'"),
        ("relax.nn.relu", "Relu 'y'"),
    ]


def test_every_call_of_a_transformer_has_a_node():
    imported = import_model(zoo.model("bert", **zoo.SMALL["bert"]))
    assert all(node is not None for _, node in origins(imported))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.first(x).relu()) + x


def test_paths_of_torch_modules():
    program = torch.export.export(Block().eval(), (torch.ones(2, 4),))
    found = dict(origins(import_model(program)))
    assert found["relax.matmul"].endswith(" in first")
    assert found["relax.nn.layer_norm"].endswith(" in norm")
    assert found["relax.nn.relu"] == "relu"


@I.ir_module
class Named:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
        with R.dataflow():
            scores = R.exp(x)
            gv = R.add(scores, x)
            R.output(gv)
        return gv


def test_variables_of_relax():
    assert origins(import_model(Named)) == [("relax.exp", "scores"), ("relax.add", "gv")]
