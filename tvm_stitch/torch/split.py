"""A graph of which we lack some operators: these stay with PyTorch, models around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils import _pytree as pytree

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.torch_import import (
    converted_names,
    decompositions,
    refuse_mutations,
)
from tvm_stitch.runtime.model import Model

_WORTH = 2  # operators of a part: one alone is PyTorch's
Compile = Callable[[torch.nn.Module, tuple[torch.Tensor, ...]], Model]


class _Has(OperatorSupportBase):
    """What the importer has; the rest is counted by name."""

    def __init__(self) -> None:
        self._names = converted_names()

    def is_node_supported(self, _submodules: Any, node: fx.Node) -> bool:
        if node.op != "call_function" or getattr(node.target, "__name__", "") not in self._names:
            return False
        return all(map(_is_of_known_shape, (node, *node.all_input_nodes)))


def _is_of_known_shape(node: fx.Node) -> bool:
    """Return whether a node makes real tensors, no numbers, of shapes that no data decides.

    Models take and make such.
    """
    return all(map(_is_known, pytree.tree_leaves(node.meta.get("val"))))


def _is_known(made: Any) -> bool:
    if isinstance(made, torch.Tensor):
        return not made.is_complex() and all(isinstance(extent, int) for extent in made.shape)
    return made is None


class Part(torch.nn.Module):
    """A part of a graph as one call of a model."""

    def __init__(self, model: Model, is_tuple: bool) -> None:
        super().__init__()
        self._model, self._is_tuple = model, is_tuple

    def forward(self, *tensors: torch.Tensor) -> Any:
        found = self._model(*(tensor.detach().contiguous() for tensor in tensors))
        results = found if isinstance(found, tuple) else (found,)
        made = tuple(map(torch.from_dlpack, results))
        return made if self._is_tuple else made[0]


def split(
    module: fx.GraphModule, given: tuple[torch.Tensor, ...], compiled: Compile
) -> tuple[fx.GraphModule, Counter[str]]:
    """Return a graph whose parts are models, and the operators that PyTorch runs, by their names.

    Raises: StitchError if no part of it is worth a model, or one can't be built.
    """
    with torch.no_grad():
        program = torch.export.export(module, given, strict=False).run_decompositions(
            decompositions()
        )
        refuse_mutations(program, "a graph of torch.compile")
        exported = program.module(check_guards=False)
    exported.graph.set_codegen(fx.graph.CodeGen())
    whole = fx.GraphModule(exported, exported.graph)
    parts = CapabilityBasedPartitioner(whole, _Has())
    fused = parts.fuse_partitions([
        part for part in parts.propose_partitions() if len(part.nodes) >= _WORTH
    ])  # fmt: skip
    names = {node.target for node in fused.graph.nodes if node.op == "call_module"}
    if not names:
        raise StitchError("a graph of torch.compile", "no part of it is ours", "run it eagerly")
    seen = _Watcher(fused, names)
    with torch.no_grad():
        seen.run(*given)
    for name in names:
        part = fused.get_submodule(name)
        (output,) = (node for node in part.graph.nodes if node.op == "output")
        is_tuple = isinstance(output.args[0], (tuple, list))
        setattr(fused, name, Part(compiled(part, seen.given[name]), is_tuple))
    left = (n.target for n in fused.graph.nodes if n.op == "call_function")
    return fused, Counter(str(target) for target in left)


class _Watcher(fx.Interpreter):
    """Runs a graph, and keeps what each of some modules is given."""

    def __init__(self, module: fx.GraphModule, names: set[str]) -> None:
        super().__init__(module)
        self._names = names
        self.given: dict[str, tuple[torch.Tensor, ...]] = {}

    def call_module(self, target: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if target in self._names:
            self.given[target] = tuple(args)
        return super().call_module(target, args, kwargs)
