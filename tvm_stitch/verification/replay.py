"""Show a reproducer again: `python -m tvm_stitch.verification.replay DIR`.

TVM builds machine code of the IR in DIR: replay no folder that you do not trust.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import tvm
import tvm_ffi

from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.linking.link import link
from tvm_stitch.verification.direct import DirectKernel
from tvm_stitch.verification.program import Step, Value
from tvm_stitch.verification.reference import References
from tvm_stitch.verification.reproducer import Reproducer, read_case, target_of
from tvm_stitch.verification.trial import try_kernel


def replay(folder: Path) -> str | None:
    """Return what is wrong with the kernel in a folder, None if nothing is.

    Raises: StitchError if the folder is no reproducer's.
    """
    made = read_case(folder)
    case = made.case
    call = Step("kernel", case.group, [Value(f"input_{n}") for n in range(len(made.inputs))])
    references = References(made.groups, [call])
    _, problem = try_kernel(_kernel(made), references, case.group, made.inputs, case.threads)
    return problem


def _kernel(made: Reproducer) -> DirectKernel:
    case = made.case
    executable = tvm.compile(made.kernels, target_of(case))
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        path = Path(folder) / "kernel.so"
        link(executable, path)
        library = tvm_ffi.load_module(path)
    return DirectKernel(
        library.get_function(case.kernel, query_imports=True),
        library.get_function("tvm_stitch_threads", query_imports=True),
        tuple((tuple(shape), dtype) for shape, dtype in case.results),
        tuple(case.places),
        made.kernels[case.kernel],
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="replay", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder = parser.parse_args().folder
    try:
        case, problem = read_case(folder).case, replay(folder)
    except StitchError as error:
        print(f"replay: {error}", file=sys.stderr)
        return 1
    print(f"{case.kernel}, given {case.given}: {problem or 'right'}")
    return int(problem is not None)


if __name__ == "__main__":
    sys.exit(main())
