"""The packages import in one direction: tvm_stitch -> relay_passes -> tir_schedules -> TVM."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from checks.record import UNCHECKED

from support import ROOT

OURS = ("tir_schedules", "relay_passes", "tvm_stitch")
ALLOWED = {
    "tir_schedules": {"tir_schedules"},
    "relay_passes": {"relay_passes", "tir_schedules"},
    "tvm_stitch": set(OURS),
}
# What tir_schedules may use besides the standard library: TVM, and what TVM itself needs.
BELOW = {"tvm", "tvm_ffi", "numpy", "ml_dtypes"}
# What a tuning log or a database brings, and what a GPU's target does, imported where one is given.
ON_DEMAND = [
    "tir_schedules/apply.py: tir_schedules.tuning.metaschedule_source.MetaScheduleSource",
    "tvm_stitch/build.py: tir_schedules.device.gpu_profile.load_gpu_profile",
    "tvm_stitch/build.py: tvm_stitch.runtime.cuda_toolkit",
    "tvm_stitch/build.py: tvm_stitch.runtime.gpu_driver",
    "tvm_stitch/build.py: tvm_stitch.tuning.reuse.LogSource",
    "tvm_stitch/onnx_backend.py: tvm_stitch.runtime.gpu_driver.own_arch",
    "tvm_stitch/runtime/library.py: tvm_stitch.runtime.gpu_driver.load_runtime",
    "tvm_stitch/runtime/library.py: tvm_stitch.runtime.gpu_model.GpuModel",
    "tvm_stitch/targets.py: tir_schedules.device.cuda.ARCHS",
    "tvm_stitch/targets.py: tvm_stitch.runtime.gpu_driver.own_arch",
]
MOST_FILES = 16  # in a folder: more are not read as a list


def _imported(path: Path) -> set[str]:
    """Return the top-level packages a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[0]
            found.add(package if node.level else (node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("package", OURS)
def test_a_package_imports_only_what_is_below_it(package):
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in _imported(path) & {*OURS, "tests", "scripts"} - ALLOWED[package]
    ]
    assert not wrong


@pytest.mark.parametrize("package", ["relay_passes", "tvm_stitch"])
def test_no_target_is_named_outside_tir_schedules(package):
    """They reach one through `tir_schedules.backend(target)`."""
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for module in _modules(path)
        if module.startswith(("tir_schedules.cpu.", "tir_schedules.cuda."))
    ]
    assert not wrong


def test_tir_schedules_needs_tvm_only():
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "tir_schedules").rglob("*.py"))
        for name in _imported(path) - BELOW - {"tir_schedules"} - sys.stdlib_module_names
    ]
    assert not wrong


# Folders of a package from the lowest up: a file imports from its own folder and those before it.
FLOORS = {
    "tir_schedules": [
        "kernel_ir", "tensor_ir", "analysis", "rewrites", "patterns", "device.profile", "device",
        "vector_math", "fallback", "tuning", "cpu.plan", "cpu.facts", "cpu.facts.memory",
        "cpu.facts.products", "cpu.legal", "cpu.emit.arithmetic", "cpu.emit.access", "cpu.emit",
        "cpu.emit.attention", "cpu.cost", "cpu.decide.products", "cpu.decide.tiles",
        "cpu.decide.traffic",
        "cpu.decide.attention", "cpu.decide", "cpu.accept", "cpu.tuning", "cpu.sorting", "cpu",
        "cuda.plan", "cuda.facts", "cuda.legal", "cuda.emit", "cuda.cost", "cuda.decide",
        "cuda.tuning", "cuda",
    ],
    "relay_passes": [
        "graph", "explorer", "cost", "rewrites", "rewrites.einsum", "rewrites.legalize", "fusion",
        "recurrence", "memory", "launches",
    ],
    "tvm_stitch": [
        "reports", "runtime.linking", "runtime", "frontend.onnx_graph", "frontend.importer",
        "frontend.rewrites.norms", "frontend.rewrites.reductions", "frontend.rewrites.arithmetic",
        "frontend.rewrites.attention", "frontend.rewrites.indexing", "frontend.rewrites.quantised",
        "frontend.rewrites.recurrent", "frontend.rewrites.resize", "frontend.rewrites.spectra",
        "frontend.rewrites.windows", "frontend.rewrites.drawn",
        "frontend.rewrites", "frontend.expansions.narrow", "frontend.expansions",
        "frontend.segments",
        "frontend.relax_graph", "frontend.torch_graph", "frontend.torch_ops", "frontend",
        "verification.samples", "verification.operators", "verification",
        "profiling", "profiling.calibration", "profiling.onnx_ops", "profiling.peers",
        "tuning.log", "tuning.measure", "tuning.model", "tuning.refit", "tuning.forms",
        "tuning.plans", "tuning.whole", "tuning", "open_shapes", "torch", "cli",
    ],
}  # fmt: skip


@pytest.mark.parametrize("package", FLOORS)
def test_no_import_runs_back_up_between_folders(package):
    floors, wrong = FLOORS[package], []
    for path in sorted((ROOT / package).rglob("*.py")):
        folder = ".".join(path.relative_to(ROOT / package).parts[:-1])
        if not folder or path.name == "__init__.py":
            continue
        for module in (m for m in _modules(path) if m.startswith(f"{package}.")):
            other = _folder(module.removeprefix(f"{package}."), floors)
            if other is not None and floors.index(other) > floors.index(folder):
                wrong.append(f"{path.relative_to(ROOT)}: {module}")
    assert not wrong


@pytest.mark.parametrize("package", FLOORS)
def test_every_folder_has_its_floor(package):
    folders = {path.parent for path in (ROOT / package).rglob("*.py")} - {ROOT / package}
    names = {".".join(folder.relative_to(ROOT / package).parts) for folder in folders}
    assert names == set(FLOORS[package])


def test_what_no_check_runs_is_imported_by_nothing_else():
    """check_all.py's record stands while other files of the packages stay as they are.

    No case has a log or a GPU.
    """
    wrong = sorted(
        f"{path.relative_to(ROOT)}: {module}"
        for package in OURS
        for path in sorted((ROOT / package).rglob("*.py"))
        if not _is_unchecked(str(path.relative_to(ROOT)))
        for module in _modules(path)
        if _is_unchecked(module.replace(".", "/"))
    )
    assert wrong == ON_DEMAND


def _is_unchecked(place: str) -> bool:
    parts = [part.removesuffix(".py") for part in UNCHECKED]
    return any(f"{place.removesuffix('.py')}/".startswith(f"{part}/") for part in parts)


def _modules(path: Path) -> set[str]:
    """Return the modules that a file imports from, by their whole names."""
    parts, found = path.relative_to(ROOT).with_suffix("").parts, set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = ".".join(parts[: len(parts) - node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def _folder(module: str, floors: list[str]) -> str | None:
    """Return the innermost folder that holds a module."""
    inside = [floor for floor in floors if module.startswith(f"{floor}.")]
    return max(inside, key=len, default=None)


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


def test_importing_tvm_stitch_imports_no_tvm():
    assert _python("import sys, tvm_stitch; print('tvm' in sys.modules)") == "False\n"


def test_help_imports_no_tvm():
    code = (
        "import sys\nfrom tvm_stitch.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print('tvm' in sys.modules, 'numpy' in sys.modules)"
    )
    assert _python(code).endswith("False False\n")


@pytest.mark.parametrize("order", ["tvm, tvm_stitch", "tvm_stitch, tvm"])
def test_the_relax_pipeline_is_registered_in_either_order(order):
    code = f"import {order}\nfrom tvm import relax\nprint(relax.get_pipeline('tvm_stitch'))"
    assert _python(code)


def test_loading_a_model_needs_no_importer():
    assert _python("import sys, tvm_stitch; tvm_stitch.load; print('onnx' in sys.modules)") == (
        "False\n"
    )


def test_scripts_import_what_the_packages_have():
    """Most are run now and then: a name that was taken out is seen here."""
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sorted((ROOT / "scripts").rglob("*.py"))
        for module in sorted(_modules(path))
        if module.split(".")[0] in OURS and not _exists(module)
    ]
    assert not wrong


def _exists(module: str) -> bool:
    """Return whether there is a module or a name of one, read and not imported: extras may lack."""
    if _source(module):
        return True
    path, _, name = module.rpartition(".")
    return (source := _source(path)) is not None and name in _bound(source)


def _source(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.exists()), None)


def _bound(path: Path) -> set[str]:
    """Return the names that a file gives itself at its top, and those it says it has."""
    found = set()
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            found.add(statement.name)
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
                if node.id == "__all__":
                    found |= {n.value for n in ast.walk(statement) if isinstance(n, ast.Constant)}
            elif isinstance(node, ast.alias):
                found.add(node.asname or node.name)
    return found


def test_no_file_of_the_tests_imports_a_test():
    """What several need is in tests/lib/support."""
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for module in _modules(path) | _imported(path)
        if any(part == "conftest" or part.startswith("test_") for part in module.split("."))
    ]
    assert not wrong


@pytest.mark.parametrize("tree", [*OURS, "tests"])
def test_no_folder_is_a_heap(tree):
    folders = Counter(path.parent for path in (ROOT / tree).rglob("*.py"))
    assert {folder: count for folder, count in folders.items() if count > MOST_FILES} == {}


def test_nothing_on_the_path_hides_a_package():
    """A folder of its name without `__init__.py` is found before an editable install."""
    folders = [Path(entry) / package for entry in sys.path for package in OURS]
    hiding = [path for path in folders if path.is_dir() and not (path / "__init__.py").exists()]
    assert not hiding
