"""What nvcc makes of a kernel, without a GPU: registers, spills, shared memory, instructions."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tvm_stitch.runtime.cuda_toolkit import OPTIONS

# An address, perhaps a predicate, an opcode with its modifiers.
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]*)", re.M)


@dataclass(frozen=True)
class MachineCode:
    """Of one kernel: registers of a thread, bytes that it spills, and how often an opcode stands.

    An opcode has its modifiers: `LDG.E.128`.
    """

    registers: int
    spilled: int
    opcodes: Counter[str]

    def count(self, name: str, *modifiers: str) -> int:
        """Return how many instructions have an opcode and some modifiers."""
        found = 0
        for opcode, times in self.opcodes.items():
            head, *rest = opcode.split(".")
            found += times if head == name and set(modifiers) <= set(rest) else 0
        return found


def toolkit() -> Path | None:
    """Return the folder of nvcc's wheels, None where they are not installed."""
    found = importlib.util.find_spec("nvidia")
    places = [] if found is None else list(found.submodule_search_locations or ())
    homes = (Path(place, "cu13") for place in places)
    return next((home for home in homes if (home / "bin" / "nvcc").exists()), None)


def machine_code(source: str, arch: str = "sm_90") -> MachineCode:
    """Return what nvcc makes of CUDA C++ with one kernel.

    Raises: RuntimeError with what it says if it refuses.
    """
    home = toolkit()
    assert home is not None
    tools = {**os.environ, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        code, made = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
        code.write_text(source)
        options = [
            "-cubin",
            "-w",
            f"-arch={arch}",
            "-Xptxas",
            "-v",
            f"-I{home / 'include'}",
            *OPTIONS,
        ]
        said = _call([home / "bin" / "nvcc", *options, "-o", made, code], tools).stderr
        listing = _call([home / "bin" / "cuobjdump", "-sass", made], tools).stdout
    (registers,) = re.findall(r"Used (\d+) registers", said)
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    opcodes = re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]*)", listing, re.M)
    return MachineCode(
        int(registers), sum(int(n) for pair in spills for n in pair), Counter(opcodes)
    )


def _call(command: list, environment: dict[str, str]) -> subprocess.CompletedProcess:
    words = list(map(str, command))
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stderr}")
    return done
