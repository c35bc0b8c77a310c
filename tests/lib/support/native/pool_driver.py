"""The pool in a process without Python: pool_main.cc, with a sanitizer or without."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tvm_ffi import libinfo

from tvm_stitch.runtime.linking import link

_HERE = Path(__file__).parent
_RUNTIME = Path(link.__file__).parents[1] / "native"
SCENES = ("launches", "failures", "nested")
TSAN = ("-fsanitize=thread", "-g")
_SECONDS = 150
_ENV = {**os.environ, "TSAN_OPTIONS": "atexit_sleep_ms=0"}


@dataclass(frozen=True)
class Driver:
    """The program and the two libraries that it loads."""

    program: Path
    libraries: tuple[Path, Path]

    def run(self, scene: str, seed: int = 0) -> str:
        """Return what is wrong: nothing, or what the program or the sanitizer said."""
        command = [str(path) for path in (self.program, *self.libraries)] + [scene, str(seed)]
        if wrapper := shutil.which("setarch"):
            command = [wrapper, "-R", *command]  # older sanitizers fail on much random placement
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=_ENV
            )
        except subprocess.TimeoutExpired:
            return f"{scene}: still running after {_SECONDS} s"
        if done.returncode:
            return f"{scene}: exit code {done.returncode}\n{done.stderr}".strip()
        return done.stderr


@functools.cache
def built(flags: tuple[str, ...] = ()) -> Driver:
    """Compile the driver with the pool in it; the folder stays for as long as the process."""
    folder = Path(_keep(tempfile.TemporaryDirectory(prefix="tvm-stitch-")))
    ffi = libinfo.find_libtvm_ffi()
    options = ["-std=c++17", "-O1", *flags, f"-I{_RUNTIME}"]
    options += [f"-I{libinfo.find_include_path()}", f"-I{libinfo.find_dlpack_include_path()}"]
    library = folder / "first.so"
    sources = [str(_HERE / "pool_driver.cc"), str(_RUNTIME / "pool.cc")]
    runtime = [str(ffi), f"-Wl,-rpath,{Path(ffi).parent}", "-ldl", "-lpthread"]
    link.call_compiler(*options, "-shared", "-fPIC", *sources, "-o", str(library), *runtime)
    shutil.copy(library, folder / "second.so")
    program = folder / "pool_main"
    link.call_compiler(*options, str(_HERE / "pool_main.cc"), "-o", str(program), *runtime[2:])
    return Driver(program, (library, folder / "second.so"))


@functools.cache
def lacks_tsan() -> str | None:
    """Return why the compiler makes no program with ThreadSanitizer that runs here, if so."""
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        source, program = Path(folder) / "empty.cc", Path(folder) / "empty"
        source.write_text("int main() {}\n")
        try:
            link.call_compiler(*TSAN, str(source), "-o", str(program))
        except RuntimeError as error:
            return str(error).strip().splitlines()[-1]
        done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
        return f"a program with ThreadSanitizer fails: {done.stderr}" if done.returncode else None


_kept: list[tempfile.TemporaryDirectory] = []


def _keep(folder: tempfile.TemporaryDirectory) -> str:
    _kept.append(folder)
    return folder.name
