"""Run a compiled model on arrays from .npy files; print its outputs, or write them as files.

With --specialize an ONNX model of open shapes: it is compiled for those of the arrays first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tvm_stitch
from tvm_stitch.array_files import file_name, read_array
from tvm_stitch.errors import StitchError


def add_parser(commands) -> None:
    cmd = commands.add_parser("run", help="run a compiled model", description=__doc__)
    cmd.add_argument("library", type=Path, metavar="OUT")
    cmd.add_argument(
        "--specialize", action="store_true", help="OUT is an ONNX model: compile it for the inputs"
    )
    cmd.add_argument(
        "--cache", type=Path, metavar="DIR", help="with --specialize: keep what was compiled there"
    )
    cmd.add_argument("--input", action="append", type=_input, default=[], metavar="NAME=FILE.npy")
    cmd.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write each output as DIR/NAME.npy"
    )
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    model = _model(args)
    outputs = model.run({name: read_array(path, name) for name, path in args.input})
    for name, array in outputs.items():
        if args.output is None:
            print(f"{name}: {array.dtype}{list(array.shape)}\n{array}")
        else:
            print(_write(args.output, name, array))


def _model(args: argparse.Namespace):
    if args.specialize:
        return tvm_stitch.Specialised(args.library, cache=args.cache)
    if args.cache is not None:
        rule, remedy = "a compiled model is compiled", "give --specialize and an ONNX model"
        raise StitchError(f"cache {args.cache}", rule, remedy)
    return tvm_stitch.load(args.library)


def _input(text: str) -> tuple[str, Path]:
    name, equals, path = text.rpartition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE.npy")
    return name, Path(path)


def _write(folder: Path, name: str, array: np.ndarray) -> Path:
    from tvm_stitch.runtime.artifact import atomically

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StitchError(folder, error.strerror, "choose another output folder") from None
    path = folder / file_name(name)
    with atomically(path) as file:
        np.save(file, array)
    return path
