"""The ways by which a module of PyTorch reaches a compiler."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from wild.architecture import Example

LEGACY_OPSET = 17
_COLOURS = re.compile(r"\x1b\[\d*m")


class NotExported(Exception):
    """PyTorch's exporter fails on the module: there is no model to compile."""


def export(example: Example, importer: str, path: Path) -> None:
    """Write the module to `path`: an ONNX file, or for torch-export a .pt2 archive.

    Raises: NotExported, with what the exporter said, if it fails.
    """
    try:
        with _quiet(), torch.no_grad():
            EXPORTERS[importer](example, path)
    except Exception as error:  # exporters raise whatever the module's code does
        said = next(iter(_COLOURS.sub("", str(error)).strip().splitlines()), "")
        raise NotExported(f"{type(error).__name__}: {said}") from error


def suffix(importer: str) -> str:
    return ".pt2" if importer == "torch-export" else ".onnx"


def _onnx_legacy(example: Example, path: Path) -> None:
    torch.onnx.export(
        example.module,
        tuple(example.inputs.values()),
        path,
        dynamo=False,
        opset_version=LEGACY_OPSET,
        input_names=list(example.inputs),
    )


def _onnx_dynamo(example: Example, path: Path) -> None:
    torch.onnx.export(
        example.module,
        tuple(example.inputs.values()),
        path,
        dynamo=True,
        verbose=False,
        input_names=list(example.inputs),
    )


def _torch_export(example: Example, path: Path) -> None:
    torch.export.save(torch.export.export(example.module, tuple(example.inputs.values())), path)


EXPORTERS: dict[str, Callable[[Example, Path], None]] = {
    "onnx-legacy": _onnx_legacy,
    "onnx-dynamo": _onnx_dynamo,
    "torch-export": _torch_export,
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep back warnings about tracing, of which a model may have hundreds."""
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
