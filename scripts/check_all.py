"""Check what is too long for CI: whole models, every stitched subgraph, 10,000 random graphs.

    python scripts/check_all.py                         # writes docs/results/check_all.json
    python scripts/check_all.py --only models,random --budget 600 -o /tmp/check.json
    python scripts/check_all.py --budget 600 --rest     # what runs of this code left
    python scripts/check_all.py --only wild --again     # what was wrong in runs of this code

Each run shuffles the cases and draws random ones from a seed that it prints and records: a run
that its budget ends is a fair sample, and runs of the same code add up in the record, each with its
commit and CPU: a section stands while none of the files of the three packages that its workers have
loaded has changed.
`--seed N` is run N again. A tree that differs from its commit is refused. Exits with 1 if anything
is wrong or was not run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from checks import ROOT, crew, record, sample, worker
from checks.loaded import common
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tir_schedules.host import host_name

SHOWN_ERRORS = 5
# A model takes the machine's threads and gigabytes.
WORKERS = {"models": 1, "threads": 1}


def main() -> int:
    """Run the sections; return 0 if each ran completely and found nothing wrong."""
    args = _arguments()
    if not args.allow_dirty and (dirty := record.dirty_files()):
        print(f"check_all.py: the tree is not the commit: {dirty[0]}", file=sys.stderr)
        return 1
    deadline = time.monotonic() + args.budget
    head, sections = record.header(args.allow_dirty), {}
    earlier = record.sections_of(args.output, head)
    print(f"--seed {args.seed}", flush=True)
    for name in args.only:
        before = earlier.get(name, {})
        sections[name] = sample.total(
            worker.section(name), before, _run(name, args, deadline, before)
        )
        record.write(args.output, head, sections)
    for name, section in sections.items():
        print(f"{name}: {section['ran']} of {section['cases']} ran, {len(section['wrong'])} wrong")
    print(args.output)
    return int(any(s["wrong"] or s["ran"] < s["cases"] for s in sections.values()))


def _run(name: str, args: argparse.Namespace, deadline: float, before: dict) -> dict:
    section = worker.section(name)
    done = sample.done_by(section, before.get("runs", ())) if args.rest else ()
    if args.again:
        cases = sorted(before.get("wrong", ()))
    else:
        cases = sample.todo(section.cases(args.seed), args.seed, done)[: args.first]
    console = Console(stderr=True)
    start, ran, wrong, measured, left_out = time.monotonic(), [], {}, {}, None
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[wrong]} wrong"), console=console) as progress:
        bar = progress.add_task(name, total=len(cases), wrong=0)
        workers = WORKERS.get(name, args.workers)
        for case, answer in crew.run_cases(name, cases, workers, deadline):
            ran.append(case)
            here = answer.pop("left_out", [])
            left_out = here if left_out is None else common(left_out, here)
            found = answer.pop("wrong", None) or answer.pop("error", "").strip().splitlines()[::-1]
            if found:
                wrong[case] = {"wrong": found, **answer}
                if len(wrong) <= SHOWN_ERRORS:
                    console.print(f"{name} {case}: {found[0]}", markup=False)
            elif answer:
                measured[case] = answer
            progress.update(bar, advance=1, wrong=len(wrong))
    return {
        "seed": args.seed,
        "rest": args.rest,
        **({"again": ran} if args.again else {}),
        "commit": record.commit(),
        "cpu": host_name(),
        "cases": before.get("cases", 0) if args.again else len(done) + len(cases),
        "ran": len(ran),
        "left_out": left_out or [],
        "seconds": round(time.monotonic() - start, 1),
        "wrong": wrong,
        "measured": measured,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=_sections, default=list(worker.SECTIONS), metavar="A,B")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--first", type=int, metavar="N", help="cases of each section")
    parser.add_argument(
        "--seed", type=int, default=sample.new_seed(), metavar="N", help="run N again"
    )
    parser.add_argument("--rest", action="store_true", help="leave out what the record has run")
    parser.add_argument("--again", action="store_true", help="run what was wrong once more")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--allow-dirty", action="store_true", help="check a tree with changes")
    parser.add_argument(
        "-o", "--output", type=Path, default=ROOT / "docs/results/check_all.json", metavar="FILE"
    )
    return parser.parse_args()


def _sections(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(worker.SECTIONS):
        known = ", ".join(worker.SECTIONS)
        raise argparse.ArgumentTypeError(f"{unknown.pop()} is no section: use {known}")
    return names


if __name__ == "__main__":
    raise SystemExit(main())
