"""What this machine and installation can do, and what is broken."""

from __future__ import annotations

import importlib.util
import subprocess
import threading
from dataclasses import dataclass
from importlib import metadata

from tvm_stitch.errors import StitchError

# The pair this release is tested with. apache-tvm-ffi 0.1.15 crashes TVM 0.27 in ToJSONGraph, as
# soon as MetaSchedule makes a TuneContext.
TVM_VERSION, FFI_VERSION = "0.27.0.post1", "0.1.14.post1"
_NEEDED = ("numpy", "ml_dtypes", "onnx", "onnxsim", "psutil", "cloudpickle", "rich", "sqlalchemy")
_EXTRAS = {"xgboost-cpu": "tune", "psycopg": "postgresql"}
_PEERS = ("onnxruntime", "openvino", "torch", "jax")


@dataclass(frozen=True)
class Finding:
    """One thing examined; `state` is ok, note (works, but know it) or broken."""

    what: str
    state: str
    found: str


def examine() -> list[Finding]:
    """Examine the installation, the compiler, this machine's CPU and threads, and the peers."""
    findings = [*_tvm(), *(_package(name, "broken") for name in _NEEDED), _compiler()]
    if importlib.util.find_spec("tvm"):
        findings += [_cpu(), _threads(), _cuda()]
    extras = [_package(name, "note", f"'tvm-stitch[{extra}]'") for name, extra in _EXTRAS.items()]
    return findings + extras + [_package(name, "note") for name in _PEERS]


def _tvm() -> list[Finding]:
    findings = []
    for package, wanted in (("apache-tvm", TVM_VERSION), ("apache-tvm-ffi", FFI_VERSION)):
        found = _version(package)
        if found == wanted:
            findings.append(Finding(package, "ok", found))
        else:
            remedy = f"pip install apache-tvm=={TVM_VERSION} apache-tvm-ffi=={FFI_VERSION}"
            told = f"{found or 'missing'}, but it must be {wanted}: {remedy}"
            findings.append(Finding(package, "broken", told))
    return findings


def _package(name: str, state_if_missing: str, installed_by: str | None = None) -> Finding:
    found = _version(name)
    if found is None:
        return Finding(name, state_if_missing, f"missing: pip install {installed_by or name}")
    return Finding(name, "ok", found)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _compiler() -> Finding:
    from tvm_stitch.runtime.linking.link import find_compiler

    try:
        compiler = find_compiler()
    except StitchError as error:
        return Finding("C++ compiler", "broken", str(error))
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    if done.returncode:
        return Finding("C++ compiler", "broken", f"{compiler} --version fails")
    return Finding("C++ compiler", "ok", f"{compiler}: {done.stdout.splitlines()[0]}")


def _cpu() -> Finding:
    from tvm_stitch import targets

    try:
        machine = targets.machine()
    except StitchError as error:
        return Finding("CPU", "broken", str(error))
    caches = (machine.l1_bytes >> 10, machine.l2_bytes >> 10, machine.l3_bytes >> 10)
    told = f"{machine.mcpu}, {machine.vector_bits}-bit vectors, L1/L2/L3 %d/%d/%d KiB" % caches
    if machine.hidden_features:
        told += f"; its model has {', '.join(machine.hidden_features)}, this machine hides them"
        return Finding("CPU", "note", told)
    return Finding("CPU", "ok", told)


def _threads() -> Finding:
    from tir_schedules.host import available_cpus

    cpus, tvms = available_cpus(), _threads_tvm_takes()
    told = f"{cpus} CPUs to use; TVM by itself would take {tvms} threads"
    if cpus == tvms:
        return Finding("threads", "ok", told)
    rest = "compiled models take all of them; for plain TVM set TVM_NUM_THREADS"
    return Finding("threads", "note", f"{told} ({rest})")


def _threads_tvm_takes() -> int:
    """Ask TVM in a thread of its own, since its answer binds the asking thread to CPUs."""
    import tvm  # noqa: F401 - registers the function asked for
    from tvm_ffi import get_global_func

    answer: list[int] = []
    asking = threading.Thread(target=lambda: answer.append(get_global_func("runtime.NumThreads")()))
    asking.start()
    asking.join()
    return answer[0]


def _cuda() -> Finding:
    from tvm_stitch.runtime import cuda_toolkit, gpu_driver

    arch = gpu_driver.own_arch()
    found = "no device or driver" if arch is None else arch
    try:
        builds = f"code for it is built by {cuda_toolkit.find_toolkit() / 'bin' / 'nvcc'}"
    except StitchError as error:
        return Finding("CUDA", "note", f"{found}; {error.rule}: {error.remedy}")
    return Finding("CUDA", "note" if arch is None else "ok", f"{found}; {builds}")
