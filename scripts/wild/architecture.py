"""One architecture of the catalogue: how its module is built, what it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from wild.values import Draw
from wild.weights import randomise


@dataclass(frozen=True)
class Architecture:
    """`build` makes the module; `inputs` draws what its forward takes, by argument name.

    `outputs` names the results to compare (fields or positions); `fixed` holds arguments that are
    no tensors.
    """

    library: str
    build: Callable[[], nn.Module]
    inputs: Mapping[str, Draw]
    outputs: tuple[str | int, ...] = (0,)
    fixed: Mapping[str, object] = field(default_factory=dict)

    def example(self, seed: int = 0) -> Example:
        """Build the module with the weights, and draw the inputs, of `seed`."""
        torch.manual_seed(seed)
        module = randomise(self.build().eval(), seed)
        generator = torch.Generator().manual_seed(seed + 1)
        inputs = {name: draw(generator) for name, draw in self.inputs.items()}
        return Example(Positional(module, tuple(inputs), self.fixed, self.outputs).eval(), inputs)


@dataclass(frozen=True)
class Example:
    """A module that takes tensors by position and returns a tuple of tensors, and its inputs."""

    module: nn.Module
    inputs: dict[str, Tensor]


class Positional(nn.Module):
    """Call a module with keyword arguments and keep the tensors that `outputs` names."""

    def __init__(
        self,
        module: nn.Module,
        names: tuple[str, ...],
        fixed: Mapping[str, object],
        outputs: tuple[str | int, ...],
    ) -> None:
        super().__init__()
        self.module = module
        self._names, self._fixed, self._outputs = names, dict(fixed), outputs

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        arguments = dict(zip(self._names, tensors, strict=True))
        result = self.module(**arguments, **self._fixed)
        if isinstance(result, Tensor):
            return (result,)
        return tuple(result[output] for output in self._outputs)
