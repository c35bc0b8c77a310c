"""The README's commands are what CI runs, its results are the measured ones, its code runs."""

import re

import draw_results
import index_results
import pytest
from readme_results import recorded, section, with_results

from support import ROOT

README = (ROOT / "README.md").read_text()
CI = (ROOT / ".ci/run").read_text()
COMMANDS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)


def test_the_readme_sets_up_with_two_commands_of_one_line():
    assert [command.count("\n") for command in COMMANDS] == [1, 1]


def test_ci_does_the_main_job_as_the_readme_does():
    assert COMMANDS[0] in CI


def test_ci_installs_and_tests_as_the_readme_does():
    lines = CI.splitlines()
    install, run_tests = COMMANDS[1].strip().split(" && ")
    assert lines.index(install) < lines.index(run_tests)
    assert lines[-1] == run_tests


def test_the_results_are_the_measured_ones():
    assert with_results(README, section(recorded())) == README
    assert with_results(README, "Not measured yet.\n").count("Not measured yet.") == 1


def test_the_chart_is_of_the_committed_records():
    assert draw_results.CHART.read_text() == draw_results.chart()


def test_the_index_of_results_is_of_the_committed_tables():
    assert (index_results.RESULTS / "README.md").read_text() == index_results.index()


def test_links_of_the_readme_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_a_readme_without_a_place_for_results_is_refused():
    with pytest.raises(ValueError, match="0 results sections"):
        with_results("# tvm-stitch\n", "| a |")


@pytest.mark.parametrize("folder", ["tvm_stitch", "relay_passes", "tir_schedules", "scripts"])
def test_folders_the_readme_names_exist(folder):
    assert f"`{folder}`" in README
    assert (ROOT / folder).is_dir()
