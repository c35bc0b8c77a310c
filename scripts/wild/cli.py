"""`wild.py --list` names everything; `wild.py NAME --importer I -o FILE` exports one model;
`wild.py --check [NAME[:IMPORTER] ...]` compiles, compares and prints a table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wild.case import answer
from wild.catalogue import ARCHITECTURES
from wild.exporters import EXPORTERS, NotExported, export


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 1 with one line on stderr or a case that is wrong."""
    parser = argparse.ArgumentParser(prog="wild.py", description=__doc__)
    parser.add_argument("name", nargs="?", choices=ARCHITECTURES, metavar="NAME")
    parser.add_argument("--importer", choices=EXPORTERS, default="onnx-legacy")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    parser.add_argument("--list", action="store_true", help="names and the library of each")
    parser.add_argument("--check", nargs="*", type=_cases, metavar="NAME[:IMPORTER]")
    parser.add_argument("--fusion", default="stitch", help="stitch, tvm or none, with --check")
    args = parser.parse_args(argv)
    if args.list:
        print("\n".join(f"{name:22} {a.library}" for name, a in ARCHITECTURES.items()))
        return 0
    if args.check is not None:
        cases = [case for named in args.check or map(_cases, ARCHITECTURES) for case in named]
        return _check(cases, args.fusion)
    if args.name is None or args.output is None:
        parser.error("NAME and -o FILE are required, or --list, or --check")
    try:
        export(ARCHITECTURES[args.name].example(), args.importer, args.output)
    except (NotExported, OSError) as error:
        print(f"wild.py: {args.name}: {error}", file=sys.stderr)
        return 1
    print(args.output)
    return 0


def _check(cases: list[str], fusion: str) -> int:
    wrong = 0
    for case in cases:
        found = answer(case, fusion=fusion)
        wrong += bool(found["wrong"])
        error = f"{found['error_of_max']:.1e}" if "error_of_max" in found else "-"
        said = found["wrong"] or [found.get("exporter") or found.get("refused") or "right"]
        print(f"{case:34} {found.get('kernels', '-'):>7} {error:>8}  {'; '.join(said)}", flush=True)
    return int(wrong > 0)


def _cases(text: str) -> list[str]:
    name, _, importer = text.partition(":")
    if name not in ARCHITECTURES or (importer and importer not in EXPORTERS):
        raise argparse.ArgumentTypeError(f"{text} is no case: use a name of --list")
    return [f"{name}:{chosen}" for chosen in ([importer] if importer else EXPORTERS)]
