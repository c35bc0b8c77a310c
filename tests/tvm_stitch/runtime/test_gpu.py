"""Models for a GPU: built without one, run on one whose kernels fibers run, refused elsewhere."""

import subprocess

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvm_stitch
from support.cuda.machine_code import toolkit
from support.models import runtime as models
from support.simt.process import answers
from tvm_stitch import targets
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import cuda_toolkit
from tvm_stitch.runtime.cuda_toolkit import fat_binary


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return answers("support.simt.machine.session", tmp_path_factory.mktemp("gpu"))


@pytest.mark.long(every=8)
@pytest.mark.parametrize(
    "way",
    [
        "compiled",
        "loaded",
        "on tensors",
        "aside of a vector",
        "by TVM alone",
        "in a TVM pipeline",
        "two models",
        "again",
    ],
)
def test_a_model_gives_what_numpy_gives(session, way):
    assert session[way] <= 1


def test_the_report_counts_launches(session):
    assert session["kernels"] == session["launches"] == 1
    assert session["sum in parts"] == [2, 2]


def test_launches_are_replayed(session):
    """From the second call on: of 9 kernels, copies of the mask and of two results are beside."""
    assert max(session["replayed"]) <= 1
    first, second, loaded, last = session["replays"]
    assert session["of them"] == first[0] == second[0] == 12
    assert first[1] == loaded[1] == 0
    assert second[1] == last[1] == 1


def test_a_call_waits_for_another_stream(session):
    assert session["waited for"] == [0, 0, 16]


def test_padding_is_multiplied_by_infinite_weights(session):
    assert session["infinite weights"]


def test_results_stay_on_the_gpu(session):
    assert session["device"] == "cuda:0"


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("a CPU's tensor", "input input.1: not on the first GPU"),
        ("another shape", "give float32[4, 64]"),
        ("another name", "the model has no such input"),
        ("no memory", "the GPU is out of memory"),
    ],
)
def test_a_mistake_is_told_in_one_line(session, what, told):
    assert told in session[what]
    assert "\n" not in session[what]


@pytest.mark.skipif(toolkit() is None, reason="nvcc's wheels are not installed (issue 26)")
def test_a_model_is_built_without_a_gpu_and_refuses_to_run(tmp_path):
    model, _ = models.linear()
    built = tvm_stitch.compile(model, "cuda:sm_90")
    built.export(tmp_path / "model.so")
    assert b"__global__" not in (tmp_path / "model.so").read_bytes()  # its source
    for each in (built, tvm_stitch.load(tmp_path / "model.so")):
        assert each.meta.arch == "sm_90"
        with pytest.raises(StitchError, match="no CUDA device or driver here"):
            each.run({"input.1": np.ones((4, 64), np.float32)})


@pytest.mark.skipif(toolkit() is None, reason="nvcc's wheels are not installed (issue 26)")
def test_a_fat_binary_has_machine_code_and_ptx(tmp_path):
    made = fat_binary('extern "C" __global__ void one(float* x) { *x = 1; }', "sm_80")
    (tmp_path / "one.fatbin").write_bytes(made)
    command = [toolkit() / "bin" / "cuobjdump", "-lelf", "-lptx", tmp_path / "one.fatbin"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "sm_80.cubin" in listed
    assert "sm_80.ptx" in listed


def test_nvcc_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(cuda_toolkit, "_homes", list)
    with pytest.raises(StitchError, match=r"nvcc is not installed; pip install 'tvm-stitch\[cuda"):
        tvm_stitch.compile(models.double(), "cuda:sm_90")


def test_what_is_for_cpus_is_refused():
    with pytest.raises(StitchError, match="is for CPUs alone; name x86"):
        tvm_stitch.compile(models.double(), "cuda:sm_90", verify=True)


def test_what_onnx_runtime_would_run_is_refused():
    node = helper.make_node("TfIdfVectorizer", ["x"], ["t"], mode="TF", min_gram_length=1,
                            max_gram_length=1, max_skip_count=0, ngram_counts=[0],
                            ngram_indexes=[0, 1], pool_int64s=[2, 3])  # fmt: skip
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.INT64, [6])], [info("t", TensorProto.FLOAT, [2])]
    model = helper.make_model(helper.make_graph([node], "words", *ends), ir_version=8)
    with pytest.raises(StitchError, match="TfIdfVectorizer 't': ONNX Runtime would run it on the"):
        tvm_stitch.compile(model, "cuda:sm_90", fallback="onnxruntime")


def test_a_target_is_told_by_its_arch():
    made = [targets.resolve(s) for s in ("cuda:sm_90", "cuda:sm_90a", "nvidia/nvidia-h100")]
    assert {targets.gpu_arch(target) for target in made} == {"sm_90"}
