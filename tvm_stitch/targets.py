"""From what a user calls a target to a checked TVM target."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tvm.target import Target
from tvm_ffi import get_global_func

from tir_schedules.backend import device_of
from tir_schedules.device import llvm_features
from tir_schedules.host import available_cpus, host_mcpu
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import cpu_features

_REMEDY = (
    "use x86, an LLVM CPU name such as x86-64-v3, cuda:sm_90, or a TVM target such as "
    '{"kind": "llvm"}'
)
_HOST = {"kind": "llvm", "mcpu": "x86-64"}  # of a GPU's code: it launches kernels
# Where in a cache line its code begins makes some percent of a short kernel, and that would depend
# on what lies before it: it was tuned in another library than it runs in.
_AT_CACHE_LINES = "-align-all-functions:uint=6"


@dataclass(frozen=True)
class MachineInfo:
    """This machine as LLVM and Linux describe it; `cpus` are those this process may use.

    `hidden_features`: LLVM's names of what the CPU's model has and this machine does not offer.
    """

    mcpu: str
    cpus: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    vector_bits: int
    hidden_features: tuple[str, ...]


def machine() -> MachineInfo:
    """Describe this machine.

    Raises: StitchError if LLVM does not know its CPU.
    """
    target = resolve("x86")
    device = device_of(target, available_cpus())
    return MachineInfo(
        device.mcpu,
        device.threads,
        device.l1_bytes,
        device.l2_bytes,
        device.l3_bytes,
        device.vector_bytes * 8,
        tuple(str(name).removeprefix("-") for name in target.export().get("mattr") or ()),
    )


def resolve(spec: str | dict | Target, threads: int | None = None) -> Target:
    """Return the TVM target for `spec`, with `threads` (default: CPUs to use) as its num-cores.

    Raises: StitchError for a target or CPU that this release cannot compile for.
    """
    threads = available_cpus() if threads is None else threads
    if threads < 1:
        raise StitchError(f"threads={threads}", "at least one is needed", "give a positive count")
    config = _config(spec)
    kind = config.get("kind")
    if kind == "cuda":
        return _cuda(config, spec)
    if kind != "llvm":
        raise StitchError(f"target {_shown(spec)}", "not a target of this release", _REMEDY)
    mcpu = config.get("mcpu")
    if mcpu:
        _check_mcpu(str(mcpu), spec)
    config["num-cores"] = threads
    config.setdefault("cl-opt", [_AT_CACHE_LINES])
    return _make(config, spec)


def _config(spec: str | dict | Target) -> dict:
    """Return the target's attributes, before they are checked."""
    if isinstance(spec, Target):
        return {key: value for key, value in spec.export().items() if key not in ("keys", "tag")}
    if isinstance(spec, dict):
        return dict(spec)
    if spec == "x86":
        return _this_machine()
    if spec.startswith("{"):
        try:
            return json.loads(spec)
        except ValueError as error:
            raise StitchError(f"target {spec}", f"not JSON: {error}", _REMEDY) from None
    kind, _, arch = spec.partition(":")
    if kind == "cuda":
        return {"kind": "cuda", "arch": arch} if arch else {"kind": "cuda"}
    if spec.startswith("nvidia/"):
        return dict(_make(spec, spec).export())
    if spec == "llvm":
        return {"kind": "llvm"}
    if not _knows(spec):
        raise StitchError(f"target {spec}", "neither a target nor a CPU LLVM knows", _REMEDY)
    return {"kind": "llvm", "mcpu": spec}


def _this_machine() -> dict:
    config = {"kind": "llvm", "mcpu": host_mcpu()}
    _check_mcpu(config["mcpu"], "x86")
    if hidden := cpu_features.masked(llvm_features(Target(config))):
        config["mattr"] = [f"-{name}" for name in hidden]
    return config


def gpu_arch(target: Target) -> str:
    """Return the arch of a GPU's target, such as "sm_90", "" for a CPU's."""
    return str(target.export()["arch"]) if target.kind.name == "cuda" else ""


def refuse_gpu(target: Target, what: str) -> None:
    """Raise StitchError if a target is a GPU's: `what` is for CPUs."""
    if arch := gpu_arch(target):
        raise StitchError(f"target cuda:{arch}", f"{what} is for CPUs alone", "name x86")


def _cuda(config: dict, spec: object) -> Target:
    """Return the target of a GPU whose figures are known: by its arch, or this machine's."""
    arch = str(config.get("arch") or _own_arch(spec)).rstrip("a")
    made = _make({"host": _HOST, **config, "arch": arch}, spec)
    if device_of(made) is None:
        from tir_schedules.device.cuda import ARCHS

        remedy = f"name one of {', '.join(ARCHS)}"
        raise StitchError(f"target {_shown(spec)}", f"no figures of {arch}", remedy)
    return made


def _own_arch(spec: object) -> str:
    from tvm_stitch.runtime.gpu_driver import own_arch

    found = own_arch()
    if found is None:
        remedy = "name the GPU that it is for, such as cuda:sm_90"
        raise StitchError(f"target {_shown(spec)}", "no CUDA device or driver here", remedy)
    return found


def _make(config: dict | str, spec: object) -> Target:
    try:
        return Target(config)
    except (ValueError, TypeError) as error:
        told = str(error).partition("Known options")[0]
        raise StitchError(f"target {_shown(spec)}", told, _REMEDY) from None


def _check_mcpu(mcpu: str, spec: object) -> None:
    if not _knows(mcpu):
        raise StitchError(f"target {_shown(spec)}", f"LLVM knows no CPU {mcpu}", _REMEDY)


def _knows(mcpu: str) -> bool:
    triple = get_global_func("target.llvm_get_system_triple")()
    return bool(get_global_func("target.llvm_is_valid_cpu")(mcpu, triple))


def _shown(spec: object) -> str:
    return spec if isinstance(spec, str) else str(spec)
