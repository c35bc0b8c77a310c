"""Copy docs/results/bench_memory.md into the README, between its markers."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARKERS = re.compile(r"(<!-- results: .*? -->\n).*?(<!-- end of results -->)", re.DOTALL)
HEADING = re.compile(r"\A# .*\n+")


def with_results(readme: str, table: str) -> str:
    """Return the README with `table`, less its heading, between its markers.

    Raises: ValueError if the markers are not there once.
    """
    table = HEADING.sub("", table.strip())
    text, count = MARKERS.subn(lambda found: f"{found[1]}{table}\n{found[2]}", readme)
    if count != 1:
        raise ValueError(f"README.md has {count} results sections, not one")
    return text


def main() -> None:
    readme = ROOT / "README.md"
    table = ROOT / "docs/results/bench_memory.md"
    readme.write_text(with_results(readme.read_text(), table.read_text()))


if __name__ == "__main__":
    main()
