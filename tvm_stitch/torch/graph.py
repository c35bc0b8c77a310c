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

import tvm_stitch
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.model import Model
from tvm_stitch.torch.freeze import Frozen, frozen, module_state
from tvm_stitch.torch.reporting import count_build, count_eager

# What torch.export raises for a graph that it does not take; its own errors are of these.
_NOT_EXPORTED = (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError)

# Of the same operators on the same shapes: torch.compile has another graph once it has seen two
# shapes, and calls the first no more.
_models: weakref.WeakValueDictionary[tuple, Model] = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class _Built:
    frozen: Frozen
    model: Model


class Graph:
    """Compiles at first sight of a shape. Parameters are taken as they are then, and again if they
    change."""

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
            built = self._for(arguments)
        except StitchError as error:
            if self._strict:
                raise
            self._run_eagerly(str(error))
            return self._module(*arguments)
        given = [arguments[place].detach().contiguous() for place in built.frozen.inputs]
        found = built.model(*given)
        results = found if isinstance(found, tuple) else (found,)
        made = [torch.from_dlpack(each) for each in results]
        return tuple(output.of(made, arguments) for output in built.frozen.outputs)

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
        """Return the model that another graph has, of the same operators, or a new one."""
        made = frozen(self._module, arguments, self._state)
        if not made.makes_any:
            raise StitchError("a graph of torch.compile", "it computes nothing", "run it eagerly")
        shapes = tuple(_shape(arguments[place]) for place in made.inputs)
        key = (made.module.code, shapes, self._versions, tuple(self._keywords.items()))
        if (model := _models.get(key)) is None:
            model = _models[key] = self._build(made, arguments)
        return _Built(made, model)

    def _build(self, made: Frozen, arguments: Sequence[Any]) -> Model:
        given = tuple(arguments[place].detach().contiguous() for place in made.inputs)
        _refuse_devices(given)
        try:
            with torch.no_grad():
                program = torch.export.export(made.module, given, strict=False)
        except _NOT_EXPORTED as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise StitchError(
                "a graph of torch.compile", f"torch.export refuses it ({reason})", "run it eagerly"
            ) from error
        model = tvm_stitch.compile(program, **self._keywords)
        count_build(model.report.kernels)
        return model

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


def _refuse_devices(tensors: Sequence[torch.Tensor]) -> None:
    for tensor in tensors:
        if tensor.device.type != "cpu":
            rule = f"an input is on {tensor.device}"
            raise StitchError("a graph of torch.compile", rule, "move the model to the CPU")
