"""scripts/serve_nodes.py: a server for each NUMA node."""

from __future__ import annotations

import os

import pytest
import serve_nodes


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("5", {5}), ("\n", set()), ("0,2", {0, 2})]
)
def test_a_list_of_cpus_is_read_as_linux_writes_it(text, cpus):
    assert serve_nodes.cpus_of(text) == cpus


def test_a_node_of_memory_alone_is_left_out(tmp_path):
    for name, text in (("node0", "0-1\n"), ("node1", "\n"), ("node2", "2,3\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpulist").write_text(text)
    assert serve_nodes.nodes(tmp_path) == [{0, 1}, {2, 3}]
    assert serve_nodes.nodes(tmp_path / "none") == [set(os.sched_getaffinity(0))]
