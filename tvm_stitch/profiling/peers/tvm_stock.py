"""Stock TVM: the ONNX import and `tvm.compile`, with nothing of ours; dlight's rules on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.relax.frontend.onnx import from_onnx

from tvm_stitch import targets
from tvm_stitch.build import machine_code

from ..peer import Job
from ..simplified import simplified


def prepare(job: Job, _setting: str) -> StockSession:
    mod = from_onnx(onnx.load(simplified(job)))
    if job.gpu:
        return _on_gpu(mod, targets.resolve(job.target))
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": job.threads})
    return StockSession(tvm.compile(mod, target))


def _on_gpu(mod: IRModule, target: tvm.target.Target) -> GpuStockSession:
    with machine_code(targets.gpu_arch(target)), target:
        return GpuStockSession(tvm.compile(mod, target))


class StockSession:
    """The Relax VM's own calling convention: `set_input` once, `invoke_stateful` a run."""

    home = tvm.cpu()

    def __init__(self, executable: Any) -> None:
        self._executable = executable
        self._vm = relax.VirtualMachine(executable, self.home)
        self.facts = {"version": tvm.__version__}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        main = self._vm["main"]
        tensors = [tvm.runtime.tensor(value, self.home) for value in inputs.values()]
        return lambda: main(*tensors)

    def fetch(self, result: Any) -> list[np.ndarray]:
        results = [result] if isinstance(result, tvm.runtime.Tensor) else result
        return [value.numpy() for value in results]


class GpuStockSession(StockSession):
    """Tensors of the GPU in and out, on TVM's stream."""

    home = tvm.cuda(0)

    def wait(self, _result: Any) -> None:
        self.home.sync()
