"""What is measured of a GPU: the kernels, what nvcc leaves of them, the file, and who reads it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import tvm
from tvm.ir import IRModule

import tvm_stitch
from support.cuda.machine_code import machine_code, toolkit
from support.models import runtime as models
from support.simt.process import answers
from tir_schedules.backend import device_of
from tir_schedules.device.cuda import CudaProfile
from tir_schedules.device.gpu_profile import GpuProfile, load_gpu_profile
from tir_schedules.device.profile import ProfileError
from tvm_stitch import build, targets
from tvm_stitch.cli import main
from tvm_stitch.errors import StitchError
from tvm_stitch.profiling.calibration import gpu, gpu_kernels
from tvm_stitch.runtime import cuda_toolkit

PROFILE = GpuProfile("some GPU", "sm_90", "by hand", CudaProfile(launch_ns=4000.0))


@pytest.fixture(scope="module")
def computed():
    return answers("support.simt.machine.measured")


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        *("stores", "chase", "shared_chase", "barriers", "shuffles", "sums_of_products"),
        *("reads", "shared_reads"),
    ],
)
def test_a_kernel_does_what_its_steps_say(computed, name):
    assert computed[name] <= 1e-5


@pytest.mark.long(every=3)
@pytest.mark.skipif(toolkit() is None, reason="nvcc's wheels are not installed (issue 26)")
@pytest.mark.parametrize(
    ("kernel", "opcode", "least"),
    [
        (gpu_kernels.chase(1000, 64), "LDG", 16),
        (gpu_kernels.barriers(64), "BAR", 16),
        (gpu_kernels.shuffles(64), "SHFL", 16),
        # Eight loads of what is read again, which nvcc would do twice if it knew where they are.
        (gpu_kernels.reads(2 * 4096, 1, 64), "LDG", 8),
        (gpu_kernels.shared_reads(1, 64), "LDS", 8),
    ],
)
def test_nvcc_leaves_the_steps(kernel, opcode, least, monkeypatch):
    sources = []

    def keep(source: str, arch: str) -> bytes:
        sources.append(source)
        return b""

    monkeypatch.setattr(cuda_toolkit, "fat_binary", keep)
    target = targets.resolve("cuda:sm_90")
    with build.machine_code("sm_90"), target:
        tvm.compile(IRModule({"main": kernel}), target)
    assert machine_code(sources[-1]).count(opcode) >= least


def test_a_profile_in_a_file_is_the_same():
    assert GpuProfile.from_json(json.loads(json.dumps(PROFILE.to_json())), "x") == PROFILE


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 9}, "format is 9"),
        ({"gpu": {"name": "a"}}, "gpu arch is missing"),
        ({"figures": {**asdict(PROFILE.figures), "load_ns": -1.0}}, "load_ns is not a positive"),
        ({"figures": {**asdict(PROFILE.figures), "l2_share": 1.5}}, "l2_share is above 1"),
        ({"figures": {**asdict(PROFILE.figures), "turbo": 1.0}}, "figures turbo is unknown"),
        ({"gpu": {"name": "a", "arch": "sm_80"}}, "is of sm_80, the target is sm_90"),
    ],
)
def test_a_file_that_is_no_profile_of_this_gpu_is_refused(change, told, tmp_path):
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps(PROFILE.to_json() | change))
    with pytest.raises(ProfileError, match=told):
        load_gpu_profile(path, "sm_90")
    with pytest.raises(StitchError, match=told):
        tvm_stitch.explain(models.double(), target="cuda:sm_90", profile=path)


def test_what_is_measured_decides(tmp_path):
    path, target = tmp_path / "gpu.json", targets.resolve("cuda:sm_90")
    path.write_text(json.dumps(PROFILE.to_json()))
    measured = build.measured_profile(path, target, 1)
    assert device_of(target, 1, measured).profile == PROFILE.figures
    assert device_of(target).profile == CudaProfile()
    assert tvm_stitch.explain(models.double(), target="cuda:sm_90", profile=path)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no CUDA device or driver here"),
        (["--threads", "2"], "--threads 2: it is for CPUs"),
        (["--from-log", "a.db"], "--from-log a.db: it is for CPUs"),
    ],
)
def test_calibrate_says_in_a_line_what_it_can_t(arguments, told, capsys):
    assert main(["calibrate", "--target", "cuda", *arguments]) == 1
    error = capsys.readouterr().err
    assert told in error and len(error.splitlines()) == 1


def test_figures_are_told_beside_what_is_assumed():
    lines = gpu.describe(replace(PROFILE, name="H200"))
    assert lines[0] == "H200 (sm_90)"
    assert "launch_ns: 4e+03, assumed without a profile 2e+03" in lines
