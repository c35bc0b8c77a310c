"""What calibrate's kernels compute on the simulated GPU: python -m support.simt.machine.measured

Prints a JSON object: how far off each is, by its name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import IRModule

from support.simt import machine
from tvm_stitch import targets
from tvm_stitch.build import machine_code
from tvm_stitch.profiling.calibration import gpu_kernels as kernels
from tvm_stitch.profiling.calibration.gpu_kernels import BLOCK, CHAINS, WARP

_STEPS = 5


def main() -> dict[str, float]:
    machine.install()
    rng = np.random.default_rng(2)
    cycle = np.roll(np.arange(40, dtype=np.int32), -3)
    lanes = np.roll(np.arange(WARP, dtype=np.int32), -1)
    x, few = (rng.standard_normal(n).astype(np.float32) for n in (WARP, CHAINS))
    zeros = np.zeros(2 * 3 * BLOCK * 4, np.int32)
    chains = few.astype(np.float64)
    for _ in range(_STEPS):
        chains = chains * few[0] + few[1]
    made = {
        "stores": (kernels.stores(3), [], np.tile(np.arange(BLOCK), 3)),
        "chase": (kernels.chase(40, _STEPS), [cycle], [3 * _STEPS]),
        "shared_chase": (kernels.shared_chase(_STEPS), [lanes], np.roll(range(WARP), -_STEPS)),
        "barriers": (kernels.barriers(_STEPS, WARP), [x], x / 2.0**_STEPS),
        "shuffles": (kernels.shuffles(_STEPS), [x], np.roll(x, -_STEPS)),
        "sums_of_products": (
            kernels.sums_of_products(1, _STEPS), [few], np.full(BLOCK, chains.sum())
        ),
        "shared_reads": (kernels.shared_reads(2, 3), [zeros[: 4 * BLOCK]], np.zeros(2 * BLOCK)),
        "reads": (kernels.reads(zeros.size, 2, 2), [zeros], np.zeros(2 * BLOCK)),
    }  # fmt: skip
    return {name: _off(*each) for name, each in made.items()}


def _off(func: tirx.PrimFunc, given: Sequence[np.ndarray], wanted: Sequence[float]) -> float:
    target = targets.resolve("cuda:sm_90")
    with machine_code("sm_90"), target:
        built = tvm.compile(IRModule({"main": func}), target)
    out = func.params[-1].ty
    home = tvm.cuda(0)
    made = tvm.runtime.empty([int(n) for n in out.shape], str(out.dtype), home)
    built["main"](*(tvm.runtime.tensor(each, home) for each in given), made)
    return float(np.abs(made.numpy() - np.asarray(wanted)).max())


if __name__ == "__main__":
    print(json.dumps(main()))
