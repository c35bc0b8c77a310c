"""A folder that shows one wrong kernel again: its IR, its operators' IR, and what it was given.

Everything in it is data, but for `group.json` and `kernel.json`: TVM builds machine code of the IR
in them, so replay no folder that you do not trust.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.target import Target

from tvm_stitch.array_files import read_array
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.dtypes import numpy_dtype
from tvm_stitch.verification.program import kernel_names, read_function

FORMAT = 1
_CASE, _GROUP, _KERNEL = "case.json", "group.json", "kernel.json"


@dataclass(frozen=True)
class Case:
    """What a reproducer holds beside IR and arrays.

    `results` are shapes and dtypes, `places` the operands that results are written over.
    """

    kernel: str
    group: str
    operators: list[str]
    given: str
    problem: str
    target: str
    threads: int
    inputs: list[str]
    results: list[tuple[list[int], str]]
    places: list[int]
    tvm: str = tvm.__version__
    format: int = FORMAT


def write_case(
    folder: Path,
    case: Case,
    groups: IRModule,
    kernels: IRModule,
    inputs: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
) -> None:
    """Write a case to a new folder, with the IR of its group and of its kernel."""
    folder.mkdir(parents=True)
    group, kernel = group_alone(groups, case.group), kernels[case.kernel]
    alone = IRModule({case.kernel: kernel.with_attr("global_symbol", case.kernel)})
    (folder / _CASE).write_text(json.dumps(asdict(case), indent=1) + "\n")
    for name, mod in ((_GROUP, group), (_KERNEL, alone)):
        (folder / name).write_text(tvm.ir.save_json(mod))
        (folder / name).with_suffix(".py").write_text(mod.script(show_meta=True))
    for number, array in enumerate(inputs):
        np.save(folder / f"input_{number}.npy", array)
    for number, array in enumerate(results):
        np.save(folder / f"result_{number}.npy", array)


def group_alone(mod: IRModule, name: str) -> IRModule:
    """Return a group, or a kernel that is one operator, with the operators that it calls."""
    func, used = mod[name], []
    if isinstance(func, relax.Function):
        used = kernel_names(read_function(mod, func))
    chosen = [mod.get_global_var(each) for each in (name, *used)]
    return IRModule({var: mod[var] for var in dict.fromkeys(chosen)})


@dataclass(frozen=True)
class Reproducer:
    """A case as it is read from a folder."""

    case: Case
    groups: IRModule
    kernels: IRModule
    inputs: list[np.ndarray]


def read_case(folder: Path) -> Reproducer:
    """Raises: StitchError if the folder is not one that `write_case` wrote."""
    try:
        fields = json.loads((folder / _CASE).read_text())
        case = Case(**fields)
        texts = [(folder / name).read_text() for name in (_GROUP, _KERNEL)]
    except OSError as error:
        raise StitchError(error.filename, error.strerror, "give a reproducer's folder") from None
    except (ValueError, TypeError):
        raise StitchError(folder / _CASE, "not a reproducer's", "verify again") from None
    if case.tvm != tvm.__version__:
        raise StitchError(folder, f"written with TVM {case.tvm}", "replay it with that")
    inputs = [
        read_array(folder / f"input_{number}.npy", str(number)).astype(numpy_dtype(dtype))
        for number, dtype in enumerate(case.inputs)
    ]
    groups, kernels = (tvm.ir.load_json(text) for text in texts)
    return Reproducer(case, groups, kernels, inputs)


def target_of(case: Case) -> Target:
    return Target(case.target)
