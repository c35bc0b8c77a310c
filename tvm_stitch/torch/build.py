"""A module's model: of all of it, or of its parts where PyTorch has operators that we lack."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import fx

import tvm_stitch
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.torch_import import exported
from tvm_stitch.open_shapes.model_cache import ModelCache
from tvm_stitch.runtime.model import Model
from tvm_stitch.torch.digest import digest_of
from tvm_stitch.torch.reporting import count_build, count_loaded, count_operators
from tvm_stitch.torch.split import Part, split


def built(
    module: fx.GraphModule,
    given: tuple[torch.Tensor, ...],
    keywords: Mapping[str, Any],
    strict: bool,
) -> torch.nn.Module:
    """Return what a module becomes for the shapes of what it is given; it returns a tuple.

    With `strict` there are no parts. Raises: StitchError.
    """
    for tensor in given:
        if tensor.device.type != "cpu":
            rule = f"an input is on {tensor.device}"
            raise StitchError("a graph of torch.compile", rule, "move the model to the CPU")

    options = {name: value for name, value in keywords.items() if name != "cache"}

    def compiled(part: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> Model:
        key = tuple((tuple(tensor.shape), str(tensor.dtype)) for tensor in inputs)
        cache = None
        if keywords.get("cache") is not None:
            cache = ModelCache.of_digest(Path(keywords["cache"]), digest_of(part), options)
            if (found := cache.load(key)) is not None:
                count_loaded(found.report)
                return found
        program = exported(part, inputs, "a graph of torch.compile")
        model = tvm_stitch.compile(program, **options)
        count_build(model.report)
        if cache is not None:
            cache.store(key, model)
        return model

    try:
        return Part(compiled(module, given), is_tuple=True)
    except StitchError as error:
        if strict:
            raise
        reason = error
    try:
        parts, left = split(module, given, compiled)
    except StitchError:
        raise reason from None
    count_operators(left)
    told = ", ".join(sorted(left))
    warnings.warn(f"tvm_stitch: PyTorch runs operators of a graph itself: {told}", stacklevel=4)
    return parts
