"""`zoo.py --list` names everything; `zoo.py NAME -o FILE.onnx` writes one model."""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from pathlib import Path

import onnx

from zoo.models import MODELS, model
from zoo.subgraphs import SUBGRAPHS, subgraph

LARGEST_PROTOBUF_BYTES = 2**31 - 1


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 1 with one line on stderr."""
    parser = argparse.ArgumentParser(prog="zoo.py", description=__doc__)
    parser.add_argument("name", nargs="?", choices=[*SUBGRAPHS, *MODELS], metavar="NAME")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.onnx")
    parser.add_argument("--list", action="store_true", help="names, with shapes or options")
    parser.add_argument("--shape", type=_shape, metavar="4,128", help="of a subgraph's main input")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_option,
        metavar="OPTION=VALUE",
        help="an option of the builder, such as layers=2 or dynamic=True",
    )
    args = parser.parse_args(argv)
    if args.list:
        print("\n".join(_listing()))
        return 0
    if args.name is None or args.output is None:
        parser.error("NAME and -o FILE.onnx are required, or --list")
    options = dict(args.set) | {"dtype": args.dtype}
    if args.shape is not None:
        options["shape"] = args.shape
    try:
        built = (subgraph if args.name in SUBGRAPHS else model)(args.name, **options)
        save(built, args.output)
    except (TypeError, ValueError, OSError) as error:
        print(f"zoo.py: {error}", file=sys.stderr)
        return 1
    print(f"{args.output}: {len(built.graph.node)} nodes")
    return 0


def save(built: onnx.ModelProto, path: Path) -> None:
    """Write the model, its weights in `<path>.data` if one file cannot hold them."""
    weight_bytes = sum(len(weight.raw_data) for weight in built.graph.initializer)
    external = weight_bytes > LARGEST_PROTOBUF_BYTES * 0.95
    onnx.save(
        built,
        path,
        save_as_external_data=external,
        location=f"{path.name}.data" if external else None,
    )


def _listing() -> list[str]:
    lines = [
        f"{name:22} shape {','.join(map(str, entry.peers))}" for name, entry in SUBGRAPHS.items()
    ]
    for name, build in MODELS.items():
        parameters = inspect.signature(build).parameters.values()
        lines.append(f"{name:22} " + " ".join(f"{p.name}={p.default}" for p in parameters))
    return lines


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _option(text: str) -> tuple[str, object]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not OPTION=VALUE")
    try:
        # Literals only: nothing in `value` is executed.
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
