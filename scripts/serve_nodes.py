"""Serve this machine to a tuner elsewhere, each of its NUMA nodes as a machine of its own.

    python scripts/serve_nodes.py --tracker HOST:PORT --key KEY --host HOST

What runs on a node's CPUs is not slowed by another node's memory. Options are those of
`tvm-stitch serve`, which is started for each node that this process may use; Ctrl-C ends all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_NODES = Path("/sys/devices/system/node")


def nodes(folder: Path = _NODES) -> list[set[int]]:
    """Return the CPUs of each NUMA node that has some; one of all CPUs if Linux names no nodes."""
    lists = sorted(folder.glob("node*/cpulist"))
    found = [cpus for each in lists if (cpus := cpus_of(each.read_text()))]
    return found or [set(os.sched_getaffinity(0))]


def cpus_of(text: str) -> set[int]:
    """Return the CPUs of a list as Linux writes it: 0-3,8."""
    spans = re.findall(r"(\d+)(?:-(\d+))?", text)
    return {cpu for first, last in spans for cpu in range(int(first), int(last or first) + 1)}


def main(arguments: list[str]) -> int:
    usable, started = os.sched_getaffinity(0), []
    for cpus in nodes():
        if cpus & usable:
            os.sched_setaffinity(0, cpus & usable)  # which a child inherits
            started.append(subprocess.Popen(["tvm-stitch", "serve", *arguments]))
    try:
        return max(each.wait() for each in started)
    except KeyboardInterrupt:  # the terminal has told the servers too
        return max(each.wait() for each in started)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
