"""What an installation brings, and what it may lack."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import check_pythons
import pytest

from support import ROOT
from tvm_stitch import doctor

PACKAGES = ("tir_schedules", "relay_passes", "tvm_stitch")
# google.protobuf is of onnx, whose messages it reads.
DISTRIBUTION = {
    "tvm": "apache-tvm",
    "tvm_ffi": "apache-tvm-ffi",
    "google": "onnx",
    "xgboost": "xgboost-cpu",
}


def project() -> dict:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", each).group() for each in requirements}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.partition(".")[0])
    return found - {*PACKAGES, *sys.stdlib_module_names}


def test_what_is_imported_is_installed_or_an_extra():
    required = names(project()["dependencies"])
    optional = project()["optional-dependencies"]
    extras = names([*optional["bench"], *optional["tune"]])
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            used = {DISTRIBUTION.get(name, name) for name in imported(path)}
            assert used <= required | extras, path


def test_what_doctor_needs_is_what_is_installed():
    needed = {"apache-tvm", "apache-tvm-ffi", *doctor._NEEDED}
    assert needed == names(project()["dependencies"])
    extras = project()["optional-dependencies"]
    assert all(name in names(extras[extra]) for name, extra in doctor._EXTRAS.items())


def test_onnx_and_numpy_are_bounded_on_both_sides():
    for requirement in project()["dependencies"]:
        if names([requirement]) & {"numpy", "onnx", "onnxsim"}:
            assert ">=" in requirement and re.search("<[^=]", requirement), requirement


def test_without_the_tuner_doctor_names_its_extra(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "xgboost-cpu" else "1.0")
    found = {finding.what: finding for finding in doctor.examine()}
    assert found["xgboost-cpu"].state == "note"
    assert found["xgboost-cpu"].found == "missing: pip install 'tvm-stitch[tune]'"


@pytest.mark.parametrize(
    ("versions", "expected"),
    [([], []), (["3.11"], ["3.11"]), (["3.10", "3.11", "3.13"], ["3.10", "3.13"])],
)
def test_the_oldest_and_the_newest_python_are_tested(versions, expected):
    assert check_pythons.ends(versions) == expected


def test_a_python_is_found_on_the_path_if_it_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'bin'}")
    for folder, status in (("shims", 127), ("bin", 0)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "python3.10").write_text(f"#!/bin/sh\nexit {status}\n")
        (tmp_path / folder / "python3.10").chmod(0o755)
    found = check_pythons.find_python("3.10")
    assert found == tmp_path / "bin/python3.10"
    assert check_pythons.find_python("3.12") is None
