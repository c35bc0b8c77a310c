"""Compute what a program makes of its parameters alone, once: weight norms, position biases.

ONNX files have this done by their exporter. Here a convolution by a weight that each run computes
would have no weight to be laid out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, TensorArgument

from relay_passes.policy import POLICY, LayoutPolicy
from tir_schedules.fuel import is_out, spend

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
# What a kernel reads through strides, or `fold_weights` lays out: never a reason to store more.
_VIEWS = frozenset(
    getattr(torch.ops.aten, name).default
    for name in ("alias", "clone", "detach", "expand", "permute", "reshape", "squeeze", "t",
                 "unsqueeze", "view", "_to_copy", "_unsafe_view")
) | {torch.ops.aten.select.int, torch.ops.aten.slice.Tensor, torch.ops.aten.transpose.int,
     torch.ops.aten.squeeze.dim, torch.ops.aten.squeeze.dims}  # fmt: skip


def fold_parameters(
    program: ExportedProgram, policy: LayoutPolicy = POLICY.layout
) -> ExportedProgram:
    """Return the program with parameters in the place of what depends on such alone.

    `program` is a decomposed one that writes over nothing; its graph may be changed. What is made
    is no larger than the tensors that it takes the place of, or small; views stay, and so does what
    draws random numbers.
    """
    folder = _Folder(program, policy.folded_bytes)
    with torch.no_grad():
        made = {node: folder.value(node) for node in folder.roots() if spend("fold", node.name)}
    if not made:
        return program
    specs = list(program.graph_signature.input_specs)
    state, graph = dict(program.state_dict), program.graph
    first = next(iter(graph.nodes))
    for number, (node, value) in enumerate(made.items()):
        name = f"folded_{number}"
        with graph.inserting_before(first):
            placeholder = graph.placeholder(name)
        placeholder.meta = {**node.meta, "val": node.meta["val"]}
        node.replace_all_uses_with(placeholder, lambda user: user.op != "output")
        specs.insert(number, InputSpec(InputKind.PARAMETER, TensorArgument(placeholder.name), name))
        state[name] = torch.nn.Parameter(value.detach().clone(), requires_grad=False)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=ExportGraphSignature(specs, program.graph_signature.output_specs),
        state_dict=state,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
    )


class _Folder:
    def __init__(self, program: ExportedProgram, small: int) -> None:
        self._graph, self._small = program.graph, small
        self._held = _held(program)
        self._made_of: dict[fx.Node, frozenset[fx.Node]] = {}  # what parameters alone make
        self._values: dict[fx.Node, object] = {}
        self._freed: set[fx.Node] = set()
        for node in self._graph.nodes:
            if node in self._held:
                self._made_of[node] = frozenset((node,))
            elif _is_pure(node) and all(n in self._made_of for n in node.all_input_nodes):
                sources = (self._made_of[n] for n in node.all_input_nodes)
                self._made_of[node] = frozenset().union(*sources)

    def roots(self) -> Iterator[fx.Node]:
        """Yield the last values that are worth their memory, each once.

        Not what the program returns, which its signature names.
        """
        seen: set[fx.Node] = set()
        for node in self._graph.nodes:
            if node in self._made_of or node.op == "output" or is_out():
                continue
            for root in self._within(node.all_input_nodes, seen):
                seen.add(root)
                yield root

    def value(self, node: fx.Node) -> object:
        if node in self._held:
            return self._held[node]
        if node not in self._values:
            arguments = fx.map_arg((node.args, node.kwargs), self.value)
            self._values[node] = node.target(*arguments[0], **arguments[1])
        return self._values[node]

    def _within(self, nodes: Iterable[fx.Node], seen: set[fx.Node]) -> Iterator[fx.Node]:
        for node in nodes:
            root = node
            while root.target in _VIEWS:
                root = root.all_input_nodes[0]
            if root not in self._made_of or root in self._held or root in seen:
                continue
            if self._pays(root):
                yield root
            else:
                yield from self._within(root.all_input_nodes, seen)

    def _pays(self, node: fx.Node) -> bool:
        made = node.meta.get("val")
        if not isinstance(made, torch.Tensor) or not made.is_floating_point():
            return False
        if not any(isinstance(self._held[n], torch.nn.Parameter) for n in self._made_of[node]):
            return False
        # Each of those that nothing else reads makes room once.
        sources = {n for n in self._made_of[node] if all(u in self._made_of for u in n.users)}
        sources -= self._freed
        if _bytes_of(made) > max(self._small, sum(_bytes_of(n.meta["val"]) for n in sources)):
            return False
        self._freed |= sources
        return True


def _held(program: ExportedProgram) -> dict[fx.Node, torch.Tensor]:
    """Return the program's own tensors by their placeholders."""
    targets = {
        spec.arg.name: spec.target
        for spec in program.graph_signature.input_specs
        if spec.kind in _HELD
    }
    tensors = {**program.constants, **program.state_dict}
    return {
        node: tensors[targets[node.name]]
        for node in program.graph.find_nodes(op="placeholder")
        if node.name in targets
    }


def _is_pure(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    made = node.meta.get("val")
    tensors = made if isinstance(made, (tuple, list)) else (made,)
    return all(_is_static(each) for each in tensors)


def _is_static(value: object) -> bool:
    return isinstance(value, torch.Tensor) and all(isinstance(n, int) for n in value.shape)


def _bytes_of(tensor: torch.Tensor) -> int:
    return math.prod(tensor.shape) * tensor.element_size()
