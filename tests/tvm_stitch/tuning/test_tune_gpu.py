"""Tuning on a GPU that fibers play: candidates are built, checked and timed there."""

from __future__ import annotations

import json

import onnx
import pytest
import zoo

import tvm_stitch.tuning.tune as tuning
from support.simt.process import printed
from support.tuning.kernels import TARGET
from tir_schedules.backend import device_of
from tir_schedules.device.cuda import CudaDevice
from tvm_stitch.errors import StitchError
from tvm_stitch.targets import resolve
from tvm_stitch.tuning.log.fingerprint import device_key


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    *listed, last = printed("support.simt.machine.tuning", tmp_path_factory.mktemp("tune"))
    return json.loads(last), listed


@pytest.mark.long
def test_a_model_is_tuned(session):
    answers, _ = session
    assert "1 kernels, cuda:sm_90" in answers["told"]
    assert answers["trials"] >= 1 and answers["features"] and not answers["errors"]


@pytest.mark.long
def test_the_log_names_the_gpu(session):
    _, listed = session
    assert listed[0].startswith("cuda:sm_90, ")


def test_a_compiled_model_takes_what_was_found(session):
    answers, listed = session
    assert answers["apart"] < 1e-6
    assert any("tuned" in line for line in listed), listed


def test_a_trackers_machines_are_no_gpus(session):
    assert session[0]["tracker"].startswith("--target cuda:sm_90: a tracker's machines are CPUs")


def test_a_gpu_is_another_device_than_a_cpu():
    gpu = device_of(resolve("cuda:sm_90"))
    assert isinstance(gpu, CudaDevice)
    keys = {device_key(each).key for each in (gpu, device_of(resolve("cuda:sm_80")))}
    assert len(keys | {device_key(device_of(TARGET, 2)).key}) == 3


def test_no_gpu_is_told_before_anything_is_measured(tmp_path):
    path = tmp_path / "softmax.onnx"
    onnx.save(zoo.subgraph("softmax"), path)
    asked = tuning.Asked(path, {"target": "cuda:sm_90"}, str(tmp_path / "log.db"), 1, None, 1)
    with pytest.raises(StitchError, match="no CUDA device or driver here"):
        tuning.tune(asked, lambda _session: None)
