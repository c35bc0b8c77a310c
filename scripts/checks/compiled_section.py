"""Architectures of the wild under torch.compile with our backend, against PyTorch itself.

What it leaves to PyTorch, graphs or operators, is measured.
"""

from __future__ import annotations

import warnings

import torch
from torch._dynamo.exc import TorchRuntimeError
from wild.architecture import Example
from wild.case import BOUND
from wild.catalogue import ARCHITECTURES
from wild.comparison import error_of_max, reference

from tvm_stitch.torch import backend, report, reset


def cases(_seed: int) -> list[str]:
    return list(ARCHITECTURES)


def run(case: str) -> dict:
    torch._dynamo.reset()
    reset()
    example = ARCHITECTURES[case].example()
    expected = reference(example)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # each graph that stays with PyTorch: the report has them
        try:
            made = torch.compile(example.module, backend=backend)(*example.inputs.values())
        except TorchRuntimeError as error:
            if _is_refused_by_dynamo(example):
                return {"refused": f"torch.compile can't trace it: {str(error).splitlines()[0]}"}
            raise
    error, told = error_of_max([each.numpy() for each in made], expected), report()
    left = {"eager": told.eager, "operators": told.operators}
    wrong = [] if error < BOUND else [f"error of max {error:.3g}, the bound is {BOUND}"]
    if told.fallback:
        wrong.append(f"on the fallback schedule: {', '.join(told.fallback)}")
    return {"error_of_max": error, "builds": told.builds, "kernels": told.kernels, **left,
            "wrong": wrong}  # fmt: skip


def _is_refused_by_dynamo(example: Example) -> bool:
    """Return whether tracing alone fails, graphs run as they are."""
    torch._dynamo.reset()
    try:
        torch.compile(example.module, backend="eager")(*example.inputs.values())
    except TorchRuntimeError:
        return True
    return False
