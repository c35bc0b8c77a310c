"""Tell what this machine and installation can do, and what is broken."""

from __future__ import annotations

import argparse

_STYLES = {"ok": "green", "note": "yellow", "broken": "bold red"}


def add_parser(commands) -> None:
    cmd = commands.add_parser("doctor", help="check the installation", description=__doc__)
    cmd.set_defaults(run=run)


def run(_args: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from tvm_stitch.doctor import examine

    findings = examine()
    table = Table("what", "state", "found", box=None, pad_edge=False)
    for finding in findings:
        style = _STYLES[finding.state]
        table.add_row(finding.what, f"[{style}]{finding.state}[/]", finding.found)
    Console().print(table)
    return int(any(finding.state == "broken" for finding in findings))
