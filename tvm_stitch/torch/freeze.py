"""A graph of torch.compile's with its parameters as constants, and its numbers too."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from tvm_stitch.errors import StitchError

_GIVEN = "a graph of torch.compile"


@dataclass(frozen=True)
class Output:
    """One result: a tensor by its place among the model's, an input, or a value."""

    place: int | None = None
    argument: int | None = None
    value: Any = None

    def of(self, made: Sequence[torch.Tensor], arguments: Sequence[Any]) -> Any:
        if self.place is not None:
            return made[self.place]
        return self.value if self.argument is None else arguments[self.argument]


@dataclass(frozen=True)
class Frozen:
    """`module` takes the arguments at `inputs`, tensors, and returns a tuple of tensors."""

    module: fx.GraphModule
    inputs: tuple[int, ...]
    outputs: tuple[Output, ...]

    @property
    def makes_any(self) -> bool:
        """Whether the module has a result of its own."""
        return any(output.place is not None for output in self.outputs)


def placeholders(module: fx.GraphModule) -> list[fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def module_state(module: fx.GraphModule) -> tuple[int, ...]:
    """Return the places of arguments that are parameters or buffers of the user's module."""
    found = []
    for place, node in enumerate(placeholders(module)):
        source = getattr(node.meta.get("grapharg"), "source", None)
        if source is not None and source.guard_source.is_unspecialized_nn_module():
            found.append(place)
    return tuple(found)


def frozen(module: fx.GraphModule, arguments: Sequence[Any], state: Sequence[int]) -> Frozen:
    """Return a graph for these arguments, those at `state` and numbers being constants.

    Raises: StitchError for a result that is neither a tensor, an argument nor a constant.
    """
    made = fx.GraphModule(module, copy.deepcopy(module.graph))
    nodes, inputs = placeholders(made), []
    places = {node: place for place, node in enumerate(nodes)}
    outputs, kept = [], []
    (output,) = (node for node in made.graph.nodes if node.op == "output")
    for result in output.args[0]:
        outputs.append(_output(result, places, arguments, kept))
    output.args = (tuple(kept),)
    for place, node in enumerate(nodes):
        value = arguments[place]
        if not isinstance(value, torch.Tensor):
            node.replace_all_uses_with(value)
            made.graph.erase_node(node)
        elif place in state:
            _store(made, node, value, f"_state_{tuple(state).index(place)}")
        else:
            inputs.append(place)
    made.recompile()
    return Frozen(made.eval(), tuple(inputs), tuple(outputs))


def _output(
    result: Any, places: dict[fx.Node, int], arguments: Sequence[Any], kept: list
) -> Output:
    if not isinstance(result, fx.Node):
        return Output(value=result)
    if result in places:
        return Output(argument=places[result])
    if not isinstance(result.meta.get("example_value"), torch.Tensor):
        rule = f"its result {result.name!r} is no tensor"
        raise StitchError(_GIVEN, rule, "return tensors")
    kept.append(result)
    return Output(place=len(kept) - 1)


def _store(module: fx.GraphModule, node: fx.Node, value: torch.Tensor, name: str) -> None:
    """Make an attribute of an argument."""
    if isinstance(value, torch.nn.Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)
    with module.graph.inserting_before(node):
        attribute = module.graph.get_attr(name)
    attribute.meta.update(node.meta)
    node.replace_all_uses_with(attribute)
    module.graph.erase_node(node)
