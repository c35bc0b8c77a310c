"""Test the package on the oldest and the newest Python that TVM's wheels take.

    python scripts/check_pythons.py             # what depends on Python or NumPy most, as CI does
    python scripts/check_pythons.py --whole     # the whole suite

Each has a virtual environment of its own, without PyTorch, which has a CPU build for some
Pythons only: the tests that need it skip themselves. Exits with 1 if a test fails or no such
Python is installed; one that is missing is named.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST, NEWEST = 10, 14  # of Python 3: those that apache-tvm and apache-tvm-ffi have wheels for
TESTS = (
    "repository/test_imports",
    "tvm_stitch/frontend/test_frontend",
    "tvm_stitch/frontend/test_frontend_errors",
    "tvm_stitch/runtime/test_runtime_buffers",
)


def main() -> int:
    """Test each; return 0 if at least one was there and none failed."""
    args = _arguments()
    versions = [f"3.{minor}" for minor in range(OLDEST, NEWEST + 1)]
    found = {version: path for version in versions if (path := find_python(version)) is not None}
    with tempfile.TemporaryDirectory() as folder:
        environments = {version: Path(folder) / version for version in ends(list(found))}
        _install({found[version]: path for version, path in environments.items()}, Path(folder))
        failed = [
            version for version, path in environments.items() if not _passes(path, args.whole)
        ]
    for version in {versions[0], versions[-1]} - set(found):
        print(f"Python {version}: not installed")
    for version in ends(list(found)):
        print(f"Python {version}: {'failed' if version in failed else 'passed'}")
    return int(bool(failed) or not found)


def ends(versions: Sequence[str]) -> list[str]:
    """Return the first and the last."""
    return [versions[at] for at in sorted({0, len(versions) - 1})] if versions else []


def find_python(version: str) -> Path | None:
    """Return an interpreter of a version that runs, among those on the path and pyenv's."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True)
        folders += sorted(map(str, Path(root.stdout.strip()).glob(f"versions/{version}.*/bin")))
    for folder in folders:
        path = Path(folder) / f"python{version}"
        # pyenv's shims are there for versions that it does not run.
        if (
            os.access(path, os.X_OK)
            and not subprocess.run(
                [path, "-c", "import venv"], capture_output=True, check=False
            ).returncode
        ):
            return path
    return None


def _install(environments: Mapping[Path, Path], folder: Path) -> None:
    """Make an environment for each interpreter, side by side: each takes one core."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")

    def install(python: Path) -> None:
        environment = environments[python]
        subprocess.run([python, "-m", "venv", environment], check=True)
        pip = [environment / "bin/pip", "install", "--quiet", f"{wheel}[test-core]"]
        subprocess.run(pip, check=True)

    with ThreadPoolExecutor() as pool:
        list(pool.map(install, environments))


def _passes(environment: Path, whole: bool) -> bool:
    """Return whether the tests pass in an environment."""
    tests = [] if whole else [f"tests/{name}.py" for name in TESTS]
    path = {"PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    run = [environment / "bin/pytest", "-n", "2", "-p", "no:cacheprovider", *tests]
    return not subprocess.run(run, cwd=ROOT, env=os.environ | path, check=False).returncode


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--whole", action="store_true", help="run the whole suite")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
