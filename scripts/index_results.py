"""Write docs/results/README.md: each table there, and the commit, CPU and command that made it.

python scripts/index_results.py     # after a bench has written a table
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "docs/results"
CPUS = ("emeraldrapids", "rocketlake", "znver4", "znver5")
HEAD = """# Results

Each table says the command that made it, and the record beside it, `.json`, has all that was
measured. Ratios are a peer's time over ours: above 1, ours is faster. In this folder is the newest
of each bench, on whichever CPU that was. `check_all.json` is what `scripts/check_all.py` found on
its commit; `cuda_code.json` and `cuda_kernels.json` are of code for GPUs that has not run on one.
"""


def index() -> str:
    """Return the index of the committed tables, a section for each folder."""
    parts = [HEAD]
    for folder in (RESULTS, *sorted(path for path in RESULTS.iterdir() if path.is_dir())):
        rows = list(_rows(folder))
        name = folder.relative_to(RESULTS)
        heading = [] if folder == RESULTS else [f"## {name}", ""]
        parts.append("\n".join([*heading, "| table | commit | CPU | command |",
                                "|---|---|---|---|", *rows]) + "\n")  # fmt: skip
    return "\n".join(parts)


def _rows(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        head = path.read_text()[:1500]
        title = re.search(r"^# (.*)$", head, re.MULTILINE)
        command = re.search(r"`((?:python scripts/|tvm-stitch )[^`]*)`", head)
        commit = re.search(r"\bat\s+([0-9a-f]{7}(?:-dirty)?)\b", head)
        cpu = next((cpu for cpu in CPUS if cpu in head), "")
        shown = title[1].rstrip(".") if title else path.stem
        cells = (
            f"[{shown}]({path.relative_to(RESULTS)})",
            commit[1] if commit else "",
            cpu,
            f"`{_short(command[1])}`" if command else "",
        )
        yield f"| {' | '.join(cells)} |"


def _short(command: str) -> str:
    """Return a command without where it wrote, its lists of names cut short."""
    command = re.sub(r" (--output|--log|-o) \S+", "", command)
    return re.sub(r"(,[^, ]+){4,}", ",...", command)


def main() -> int:
    (RESULTS / "README.md").write_text(index())
    return 0


if __name__ == "__main__":
    sys.exit(main())
