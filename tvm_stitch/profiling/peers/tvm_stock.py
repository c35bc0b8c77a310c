"""Stock TVM: the ONNX import and `tvm.compile`, with nothing of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from ..peer import Job
from ..simplified import simplified


def prepare(job: Job, _setting: str) -> StockSession:
    mod = from_onnx(onnx.load(simplified(job)))
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": job.threads})
    return StockSession(tvm.compile(mod, target))


class StockSession:
    """The Relax VM's own calling convention: `set_input` once, `invoke_stateful` a run."""

    def __init__(self, executable: Any) -> None:
        self._executable = executable
        self._vm = relax.VirtualMachine(executable, tvm.cpu())
        self.facts = {"version": tvm.__version__}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        main, tensors = self._vm["main"], [tvm.runtime.tensor(v) for v in inputs.values()]
        return lambda: main(*tensors)

    def fetch(self, result: Any) -> list[np.ndarray]:
        results = [result] if isinstance(result, tvm.runtime.Tensor) else result
        return [value.numpy() for value in results]
