"""From what a user calls a target to a checked TVM target."""

from __future__ import annotations

import json
from dataclasses import dataclass

import tvm
from tvm.target import Target
from tvm_ffi import get_global_func

from tir_schedules.backend import device_of
from tir_schedules.device import llvm_features
from tir_schedules.host import available_cpus, host_mcpu
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import cpu_features

_REMEDY = 'use x86, an LLVM CPU name such as x86-64-v3, or a TVM target such as {"kind": "llvm"}'


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
        _refuse_cuda(spec)
    if kind != "llvm":
        raise StitchError(f"target {_shown(spec)}", "not a target of this release", _REMEDY)
    mcpu = config.get("mcpu")
    if mcpu:
        _check_mcpu(str(mcpu), spec)
    config["num-cores"] = threads
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
    if spec.partition(":")[0] == "cuda" or spec.startswith("nvidia/"):
        return {"kind": "cuda"}
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


def _make(config: dict, spec: object) -> Target:
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


def _refuse_cuda(spec: object) -> None:
    if not tvm.runtime.enabled("cuda"):
        rule, remedy = "no CUDA device or driver here", "compile for x86"
    else:
        rule, remedy = "CUDA comes with a later release", "compile for x86"
    raise StitchError(f"target {_shown(spec)}", rule, remedy)


def _shown(spec: object) -> str:
    return spec if isinstance(spec, str) else str(spec)
