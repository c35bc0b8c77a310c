"""A graph of torch.compile's as it is called: one model for each shape, or PyTorch itself."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from tvm_stitch.errors import StitchError
from tvm_stitch.torch.build import built
from tvm_stitch.torch.freeze import Frozen, frozen, module_state
from tvm_stitch.torch.reporting import count_eager

# Of the same operators on the same shapes: torch.compile has another graph once it has seen two
# shapes, and calls the first no more.
_modules: weakref.WeakValueDictionary[tuple, torch.nn.Module] = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class _Built:
    frozen: Frozen
    module: torch.nn.Module


class Graph:
    """Compiles at first sight of a shape.

    Parameters are taken as they are then, and again if they change.
    """

    def __init__(self, module: fx.GraphModule, keywords: Mapping[str, Any], strict: bool) -> None:
        self._module, self._keywords, self._strict = module, dict(keywords), strict
        self._state = module_state(module)
        self._versions: tuple | None = None
        self._built: dict[tuple, _Built] = {}
        self._eager: str | None = None
        self._lock = threading.Lock()

    @torch.compiler.disable
    def __call__(self, *arguments: Any) -> tuple:
        if self._eager is None and _wants_gradient(arguments):
            self._run_eagerly("a gradient is needed")
        if self._eager is not None:
            return self._module(*arguments)
        try:
            found = self._for(arguments)
        except StitchError as error:
            if self._strict:
                raise
            self._run_eagerly(str(error))
            return self._module(*arguments)
        made = found.module(*(arguments[place] for place in found.frozen.inputs))
        return tuple(output.of(made, arguments) for output in found.frozen.outputs)

    def _for(self, arguments: Sequence[Any]) -> _Built:
        """Return the model for the shapes of these arguments. Raises: StitchError."""
        with self._lock:
            versions = tuple(_version(arguments[place]) for place in self._state)
            if versions != self._versions:
                self._built, self._versions = {}, versions
            key = tuple(_shape(value) for n, value in enumerate(arguments) if n not in self._state)
            if key not in self._built:
                self._built[key] = self._find(arguments)
            return self._built[key]

    def _find(self, arguments: Sequence[Any]) -> _Built:
        """Return the model that another graph has, of the same operators, or a new one.

        Raises: StitchError.
        """
        made = frozen(self._module, arguments, self._state)
        if not made.makes_any:
            raise StitchError("a graph of torch.compile", "it computes nothing", "run it eagerly")
        shapes = tuple(_shape(arguments[place]) for place in made.inputs)
        key = (made.module.code, shapes, self._versions, tuple(self._keywords.items()))
        if (module := _modules.get(key)) is None:
            given = tuple(arguments[place].detach().contiguous() for place in made.inputs)
            module = _modules[key] = built(made.module, given, self._keywords, self._strict)
        return _Built(made, module)

    def _run_eagerly(self, reason: str) -> None:
        self._eager, self._built = reason, {}
        count_eager(reason)
        warnings.warn(f"tvm_stitch: PyTorch runs a graph itself: {reason}", stacklevel=3)


def _wants_gradient(arguments: Sequence[Any]) -> bool:
    tensors = (each for each in arguments if isinstance(each, torch.Tensor))
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _version(value: torch.Tensor) -> tuple[int, int]:
    """Return what changes with a parameter: its place in memory, and how often it was written."""
    return value.data_ptr(), value._version


def _shape(value: Any) -> tuple | Any:
    return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else value
