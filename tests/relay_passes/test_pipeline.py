"""The passes in a TVM pipeline, with no tool around them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tvm
import zoo
from tvm import ir, relax, s_tir, tirx
from tvm.ir import IRModule, assert_structural_equal
from tvm.s_tir import dlight
from tvm_ffi import structural_equal

import relay_passes as relay
import tir_schedules
import tvm_stitch
from support import ROOT
from support.kernels import stitch_case as sc
from support.kernels import tir
from support.kernels.stitched import BACK, FRONT, stitched
from support.models import relax_models as rm
from tvm_stitch.pipeline import relax_pipeline

CASES = [pytest.param(make, id=name) for name, make in rm.UNHARMED.items()]
CLOSE = {"rtol": 2e-5, "atol": 1e-5}


def kernels(mod: IRModule) -> dict[str, tirx.PrimFunc]:
    return {g.name_hint: f for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}


def assert_right(executable, model: rm.Relaxed) -> None:
    got = rm.run(executable, model)
    assert len(got) == len(model.expected)
    for mine, theirs in zip(got, model.expected, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, **CLOSE)


@pytest.mark.parametrize("make", CASES)
def test_a_module_for_a_gpu_without_figures_passes_through(make):
    mod = relay.transform.Sequential([p() for p in FRONT])(make().mod)
    passes = [relay.transform.StitchOps(), tir_schedules.ApplyStitchSchedules()]
    with tvm.target.Target({"kind": "cuda", "arch": "sm_50"}):
        assert_structural_equal(relay.transform.Sequential(passes)(mod), mod)


@pytest.mark.parametrize("make", CASES)
def test_each_kernel_for_a_gpu_is_bound_to_threads(make):
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    made = stitched(make().mod, target=target)
    for func in kernels(made).values():
        assert "threadIdx.x" in str(func)


@pytest.mark.parametrize("make", CASES)
def test_passes_in_a_sequential_leave_a_model_right(make):
    model = make()
    assert_right(tvm.compile(stitched(model.mod), rm.cpu()), model)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("make", CASES)
def test_the_relax_pipeline_leaves_a_model_right(make):
    model = make()
    assert_right(tvm.compile(model.mod, rm.cpu(), relax_pipeline="tvm_stitch"), model)


def test_the_relax_pipeline_lays_constant_weights_out_as_compile_does():
    """A product in panels, and a convolution channels last."""
    rng = np.random.default_rng()
    b, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((1, 64, 28, 28), "float32"))
    kernel = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    weight = rng.standard_normal((28, 96)).astype(np.float32)
    with b.function("main", [x]):
        with b.dataflow():
            image = b.emit(relax.op.nn.conv2d(x, relax.const(kernel), padding=1))
            y = b.emit_output(relax.op.matmul(image, relax.const(weight)))
        b.emit_func_output(y)
    mod, given = b.finalize(), rng.standard_normal((1, 64, 28, 28)).astype(np.float32)
    with rm.cpu():
        names = set(kernels(relax_pipeline()(mod)))
    assert any("packed_matmul" in name for name in names), names
    assert any("convolve" in name for name in names), names
    machine = relax.VirtualMachine(
        tvm.compile(mod, rm.cpu(), relax_pipeline="tvm_stitch"), tvm.cpu()
    )
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(given.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)
    )
    expected = np.einsum("nchwij,ocij->nohw", windows, kernel) @ weight
    error = np.abs(machine["main"](tvm.runtime.tensor(given)).numpy() - expected).max()
    assert error < 1e-5 * np.abs(expected).max()


def test_every_pass_from_import_to_executable_is_named_and_dumped_in_order(tmp_path):
    model = zoo.subgraph("layernorm_decomposed", (64, 96))
    tvm_stitch.compile(model, threads=2, dump_dir=tmp_path)
    numbers, names = zip(*(f.stem.split("_") for f in sorted(tmp_path.iterdir())), strict=True)
    assert [int(number) for number in numbers] == list(range(len(numbers)))
    wanted = [
        *("PointwiseProducts", "ChannelsLast", "PackWeights", "FoldWeights", "PrepareWeights"),
        *("WidenSorts", "LogOfSums", "BlockScans", "LegalizeOps", "FoldSmallConstants"),
        *("StitchOps", "FuseOps", "FuseTIR"),
        *("ApplyStitchSchedules", "OverwriteOperands", "DropAlignment", "CallTIRRewrite"),
        *("PlanMemory", "VMShapeLower"),
    ]
    places = [names.index(name) for name in wanted]
    assert places == sorted(places)


@pytest.mark.parametrize("make", CASES)
def test_passes_leave_their_input_alone(make):
    mod = make().mod
    with rm.cpu():
        legal = relay.transform.Sequential([p() for p in FRONT])(mod)
        before = legal.script(show_meta=True)
        grouped = relay.transform.StitchOps()(legal)
        assert legal.script(show_meta=True) == before
        fused = relay.transform.Sequential([p() for p in BACK])(grouped)
        before = fused.script(show_meta=True)
        tir_schedules.ApplyStitchSchedules()(fused)
        assert fused.script(show_meta=True) == before


@pytest.mark.parametrize("make", CASES)
def test_passes_are_no_ops_the_second_time(make):
    mod = make().mod
    with rm.cpu():
        legal = relay.transform.Sequential([p() for p in FRONT])(mod)
        once = relay.transform.StitchOps()(legal)
        assert_structural_equal(relay.transform.StitchOps()(once), once)
        fused = relay.transform.Sequential([p() for p in BACK])(once)
        scheduled = tir_schedules.ApplyStitchSchedules()(fused)
        assert_structural_equal(tir_schedules.ApplyStitchSchedules()(scheduled), scheduled)


@pytest.mark.parametrize("make", CASES)
def test_passes_give_well_formed_modules(make):
    mod = make().mod
    with rm.cpu():
        legal = relay.transform.Sequential([p() for p in FRONT])(mod)
        grouped = relay.transform.StitchOps()(legal)
    relax.analysis.well_formed(grouped)
    scheduled = stitched(mod)
    relax.analysis.well_formed(scheduled)
    for func in kernels(scheduled).values():
        assert s_tir.analysis.verify_well_formed(func)


@pytest.mark.parametrize("make", CASES)
def test_stitching_the_same_model_twice_gives_equal_modules(make):
    assert_structural_equal(stitched(make().mod), stitched(make().mod))


@pytest.mark.parametrize("name", ["layernorm_decomposed", "gru_cell", "row_and_column"])
def test_compiling_the_same_model_twice_gives_equal_modules(name):
    first, second = (sc.lowered(zoo.subgraph(name)) for _ in range(2))
    assert_structural_equal(first, second)
    assert [g.name_hint for g in first.get_global_vars()] == [
        g.name_hint for g in second.get_global_vars()
    ]


def test_compiling_a_network_twice_gives_equal_modules():
    model = zoo.model("bert", **zoo.SMALL["bert"])
    assert_structural_equal(sc.lowered(model), sc.lowered(model))


def _same_kernels(before: IRModule, after: IRModule) -> None:
    old, new = (
        {n: f.without_attr("global_symbol") for n, f in kernels(m).items()} for m in (before, after)
    )
    assert set(old) <= set(new)
    assert [name for name, func in old.items() if not structural_equal(func, new[name])] == []


@pytest.mark.parametrize("make", CASES)
def test_tvms_own_relax_passes_leave_scheduled_kernels_as_they_are(make):
    scheduled = stitched(make().mod)
    for func in kernels(scheduled).values():
        assert int(func.attrs["op_pattern"]) == 8
        assert func.attrs["tirx.is_scheduled"]
    for pipeline in (relax.get_pipeline("default"), relax.get_default_pipeline(rm.cpu())):
        with rm.cpu():
            _same_kernels(scheduled, pipeline(scheduled))


@pytest.mark.parametrize("name", ["bert", "mobilenetv2"])
def test_tvms_own_relax_passes_leave_a_networks_kernels_as_they_are(name):
    mod = sc.lowered(zoo.model(name, **zoo.SMALL[name]))
    with rm.cpu():
        _same_kernels(mod, relax.get_default_pipeline(rm.cpu())(mod))


@pytest.mark.long(every=2)
@pytest.mark.parametrize("name", ["bert", "mobilenetv2"])
def test_no_kernel_computes_a_constant(name):
    built = sc.compiled(zoo.model(name, **zoo.SMALL[name]))
    for call in sc.launches(built.mod):
        arguments = call.args[1]
        assert not arguments.fields or not all(
            isinstance(argument, ir.GenericConst) for argument in arguments.fields
        ), call.args[0].name_hint


def test_tvm_compile_builds_the_kernels_it_was_given(monkeypatch):
    scheduled = stitched(rm.residual_norm_softmax().mod)
    seen: list[IRModule] = []
    build = tvm.tirx.build

    def watch(mod, *args, **kwargs):
        seen.append(mod)
        return build(mod, *args, **kwargs)

    monkeypatch.setattr(tvm.tirx, "build", watch)
    tvm.compile(scheduled, rm.cpu())
    (built,) = seen
    _same_kernels(scheduled, built)


def test_the_relax_pipeline_gives_the_kernels_the_passes_give():
    mod = rm.residual_norm_softmax().mod
    with rm.cpu():
        lowered = relax.get_pipeline("tvm_stitch")(mod)
    _same_kernels(stitched(mod), lowered)


def test_one_group_is_one_call():
    mod = stitched(rm.residual_norm_softmax().mod)
    assert len(sc.launches(mod)) == 1
    (kernel,) = kernels(mod).values()
    tir.assert_stitched(kernel, sc.device())


@pytest.mark.parametrize("make", CASES)
def test_dlight_takes_our_rules(make):
    model = make()
    with rm.cpu():
        fused = stitched(model.mod, schedule=False)
        scheduled = dlight.ApplyDefaultSchedule(*tir_schedules.cpu.rules())(fused)
    assert set(kernels(scheduled)) == set(kernels(fused))
    assert_right(tvm.compile(scheduled, rm.cpu()), model)


def test_dlight_and_our_pass_give_the_same_kernel():
    fused = stitched(rm.residual_norm_softmax().mod, schedule=False)
    with rm.cpu():
        by_rule = dlight.ApplyDefaultSchedule(*tir_schedules.cpu.rules())(fused)
        by_pass = tir_schedules.ApplyStitchSchedules()(fused)
    for name, func in kernels(by_pass).items():
        assert structural_equal(func.body, kernels(by_rule)[name].body, map_free_vars=True)


def test_a_pass_needs_a_target():
    with pytest.raises(Exception, match="arget"):
        relay.transform.StitchOps()(rm.residual_norm_softmax().mod)


def test_the_relax_pipeline_is_registered_on_import_and_once():
    code = (
        "import tvm_stitch, importlib; from tvm import relax; importlib.reload(tvm_stitch);"
        "assert 'tvm_stitch' in relax.pipeline.PIPELINE_MAP; relax.get_pipeline('tvm_stitch')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)


def test_relay_passes_exports_what_a_pipeline_needs():
    assert relay.transform.Sequential is tvm.ir.transform.Sequential
    assert relay.transform.PassContext is tvm.ir.transform.PassContext
    assert isinstance(relay.transform.StitchOps(), tvm.ir.transform.Pass)
    assert isinstance(tir_schedules.ApplyStitchSchedules(), tvm.ir.transform.Pass)
