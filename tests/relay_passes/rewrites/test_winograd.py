"""Minimal filtering: right at any size, one kernel each, chosen where it is predicted to pay."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from tvm import relax, te
from tvm.ir import IRModule
from zoo.graph import Graph

import tvm_stitch
from relay_passes.rewrites.convolution import Window
from relay_passes.rewrites.winograd import (
    FOUR,
    TWO,
    Filtering,
    convolve_winograd,
    out_sizes,
    transform_kernel,
    transformed_kernel,
)
from relay_passes.transform import PackWeights
from support.kernels import stitch_case as sc
from support.kernels.tir import assert_stitched
from support.models import relax_models
from tir_schedules.default_plan import schedule_prim_func
from tvm_stitch import targets

NAME = convolve_winograd.__name__
SAME = Window((1, 1), (1, 1), (1, 1), (1, 1))


def network(
    batch: int = 1,
    channels: tuple[int, int] = (64, 64),
    size: tuple[int, int] = (32, 32),
    dtype: str = "float32",
    residual: bool = False,
    taps: int = 3,
    **attributes: object,
) -> onnx.ModelProto:
    """A convolution that minimal filtering computes, unless it is told otherwise, and a relu."""
    g, (depth, outs) = Graph("winograd", dtype=dtype), channels
    x = g.input("x", (batch, depth, *size))
    weight = g.weight("w", (outs, depth // attributes.get("group", 1), taps, taps))
    y = g.op("Conv", x, weight, g.weight("b", (outs,)), **{"pads": [1] * 4, **attributes})
    if residual:
        y = g.op("Add", y, g.input("r", (batch, outs, *size)))
    g.output(g.op("Relu", y), "y", ("batch", "outs", "height", "width"))
    return g.model()


def filtered(kernels: set[str]) -> list[str]:
    return [name for name in kernels if NAME in name]


def by_kernel(
    x: np.ndarray, weight: np.ndarray, at: Window, by: Filtering, threads: int
) -> np.ndarray:
    """Return what the scheduled kernel makes of a channels-last image."""
    outs, dtype = weight.shape[0], str(x.dtype)
    kernel = transformed_kernel(weight, by, 16)
    tensors = [te.placeholder(a.shape, dtype) for a in (x, kernel)]
    func = te.create_prim_func([*tensors, convolve_winograd(*tensors, at, by)])
    scheduled = schedule_prim_func(func, sc.device(threads))
    assert not isinstance(scheduled, str), scheduled
    mod = IRModule({"main": scheduled.with_attr("global_symbol", "main")})
    built = tvm.compile(mod, targets.resolve("x86", threads))
    made = out_sizes(x.shape[1:3], at)
    y = tvm.runtime.tensor(np.full((x.shape[0], *made, outs), np.nan, dtype))
    built["main"](*map(tvm.runtime.tensor, (x, kernel)), y)
    return y.numpy()


def direct(x: np.ndarray, weight: np.ndarray, at: Window) -> np.ndarray:
    """Return the convolution of a channels-last image in float64."""
    edges = zip(at.before, at.after, strict=True)
    image = np.pad(x.astype("f8"), [(0, 0), *edges, (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
    return np.einsum("nhwcij,ocij->nhwo", windows, weight.astype("f8"), optimize=True)


@pytest.mark.long(every=5)
@pytest.mark.parametrize("by", [TWO, FOUR], ids=["two", "four"])
@pytest.mark.parametrize(
    ("batch", "tiles", "channels", "pads"),
    [
        pytest.param(1, (1, 1), (16, 16), (1, 1, 1, 1), id="one-tile"),
        pytest.param(2, (1, 7), (16, 32), (0, 0, 0, 0), id="one-line"),
        pytest.param(3, (5, 1), (24, 48), (1, 0, 1, 2), id="one-column"),
        pytest.param(1, (7, 5), (40, 80), (0, 2, 1, 0), id="prime"),
        pytest.param(2, (3, 11), (64, 64), (2, 2, 2, 2), id="wide-padding"),
        pytest.param(1, (13, 7), (128, 64), (1, 1, 1, 1), id="several-tiles"),
    ],
)
def test_kernels_of_all_sizes_are_right_on_any_number_of_threads(by, batch, tiles, channels, pads):
    rng, (depth, outs) = np.random.default_rng(0), channels
    at = Window((1, 1), (1, 1), pads[:2], pads[2:])
    size = [n * by.size + 2 - a - b for n, a, b in zip(tiles, at.before, at.after, strict=True)]
    x = rng.standard_normal((batch, *size, depth)).astype("f4")
    weight = rng.standard_normal((outs, depth, 3, 3)).astype("f4")
    expected = direct(x, weight, at)
    one, two = (by_kernel(x, weight, at, by, threads) for threads in (1, 2))
    assert np.abs(one - expected).max() < 1e-5 * np.abs(expected).max()
    assert np.array_equal(one, two)


@pytest.mark.parametrize("by", [TWO, FOUR], ids=["two", "four"])
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 6e-8), ("float64", 1e-15)])
@pytest.mark.parametrize(("channels", "lanes"), [((16, 16), 16), ((64, 37), 32), ((80, 1), 16)])
def test_a_kernel_is_transformed_as_numpy_does_in_float64(by, dtype, bound, channels, lanes):
    weight = np.random.default_rng(0).standard_normal((*channels, 3, 3)).astype(dtype)
    width = 8  # of the panels that it comes in
    panels = weight.reshape(-1, width, *weight.shape[1:]).transpose(0, 3, 4, 2, 1)
    tensor = te.placeholder(panels.shape, dtype)
    func = te.create_prim_func([tensor, transform_kernel(tensor, by, lanes)])
    scheduled = schedule_prim_func(func, sc.device())
    assert not isinstance(scheduled, str), scheduled
    mod = IRModule({"main": scheduled.with_attr("global_symbol", "main")})
    expected = transformed_kernel(weight, by, lanes)
    made = tvm.runtime.tensor(np.full_like(expected, np.nan))
    built = tvm.compile(mod, targets.resolve("x86", 2))
    built["main"](tvm.runtime.tensor(np.ascontiguousarray(panels)), made)
    assert np.abs(made.numpy() - expected).max() <= bound * np.abs(expected).max()


@pytest.mark.parametrize("by", [TWO, FOUR], ids=["two", "four"])
def test_float64_keeps_its_digits(by):
    rng, at = np.random.default_rng(0), Window((1, 1), (1, 1), (1, 1), (1, 1))
    x, weight = rng.standard_normal((1, 16, 16, 64)), rng.standard_normal((64, 64, 3, 3))
    expected = direct(x, weight, at)
    assert np.abs(by_kernel(x, weight, at, by, 2) - expected).max() < 1e-12 * np.abs(expected).max()


@pytest.fixture(scope="module")
def guarded() -> tuple[onnx.ModelProto, sc.Compiled]:
    model = network(residual=True)
    return model, sc.compiled(model, 2)


@pytest.mark.long(every=3)
@pytest.mark.parametrize(
    ("batch", "channels", "size"),
    [
        pytest.param(1, (64, 64), (32, 32), id="square"),
        pytest.param(2, (40, 48), (20, 44), id="wide"),
        pytest.param(8, (24, 32), (26, 14), id="batch"),
    ],
)
def test_a_convolution_with_its_epilogue_is_one_kernel(batch, channels, size):
    model = network(batch, channels, size, residual=True)
    inputs = sc.zoo.random_inputs(model)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    built = sc.compiled(model, 2)
    made = built.model.run(inputs)
    sc.assert_close(made, {"y": expected.astype("f8")}, 1e-5)
    assert np.array_equal(made["y"], tvm_stitch.compile(model, threads=1).run(inputs)["y"])
    (name,) = filtered(built.kernels)
    (group,) = (g for g in built.model.report.groups if g.kernel == name)
    assert {"add", "relu"} <= set(group.ops)
    assert len([k for k in built.kernels if k != name]) <= 2, "the image and r laid out anew"
    assert_stitched(built.kernels[name], sc.device())


def exactly(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    return expected


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 1e37, -3e38], ids=str)
def test_infinities_nan_and_huge_numbers_show_where_a_direct_sum_shows_them(guarded, special):
    """One infinity would be NaN in its whole tile, a huge number overflow in sums that cancel."""
    model, built = guarded
    inputs = sc.zoo.random_inputs(model)
    inputs["x"][0, 5, 7, 9] = inputs["x"][0, 9, 31, 0] = special
    expected = exactly(model, inputs)
    (y,) = built.model.run(inputs).values()
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(y[~finite], expected[~finite])
    assert np.abs(y[finite] - expected[finite]).max() <= 2e-6 * np.abs(expected[finite]).max()
    far = expected[:, :, 12:28, 4:]
    assert np.abs(y[:, :, 12:28, 4:] - far).max() < 1e-5 * np.abs(far).max()


def test_what_is_infinite_in_what_is_added_behind_takes_no_other_way(guarded):
    model, built = guarded
    inputs = sc.zoo.random_inputs(model)
    inputs["r"][0, 3, 4, 5], inputs["r"][0, 4, 4, 5] = np.inf, np.nan
    expected = exactly(model, inputs)
    (y,) = built.model.run(inputs).values()
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_both_ways_write_over_the_operand_that_dies():
    """Of a chain of convolutions each writes over what is added to it."""
    g = Graph("chain")
    x = g.input("x", (1, 64, 32, 32))
    first = g.op("Relu", g.op("Conv", x, g.weight("v", (64, 64, 3, 3)), pads=[1] * 4))
    second = g.op("Relu", g.op("Conv", first, g.weight("w", (64, 64, 3, 3)), pads=[1] * 4))
    third = g.op("Conv", second, g.weight("u", (64, 64, 3, 3)), pads=[1] * 4)
    fourth = g.op("Relu", g.op("Add", third, first))
    last = g.op("Conv", fourth, g.weight("t", (64, 64, 5, 5)), pads=[2] * 4)
    g.output(g.op("Relu", last), "y", (1, 64, 32, 32))
    model = g.model()
    built = sc.compiled(model, 2)
    assert any(name.endswith("_in_place") for name in filtered(built.kernels))
    for special in (1.0, np.inf):
        inputs = sc.zoo.random_inputs(model)
        inputs["x"][0, 5, 7, 9] = special
        expected = exactly(model, inputs)
        (y,) = built.model.run(inputs).values()
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def lone(builder: relax.BlockBuilder, x: relax.Expr, weight: relax.Expr) -> relax.Expr:
    layout = {"data_layout": "NHWC", "kernel_layout": "OIHW"}
    return builder.emit(relax.op.nn.conv2d(x, weight, padding=1, **layout))


@pytest.mark.long(every=3)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "parameter"])
def test_in_a_pipeline_a_weight_is_transformed_at_once_or_by_each_run(constant):
    x, weight = relax_models.arrays((1, 32, 32, 64), (64, 64, 3, 3))
    if constant:
        given = (x,)
        mod = relax_models.module(lambda builder, x: lone(builder, x, relax.const(weight)), x)
    else:
        given = (x, weight)
        mod = relax_models.module(lone, *given)
        mod["main"] = mod["main"].with_attr("num_input", 1)
    with relax_models.cpu():
        mod = PackWeights(arrays=given[1:])(mod)
    values = [binding.value for binding in mod["main"].body.blocks[0].bindings[:-1]]
    calls = [v.args[0].name_hint for v in values if v.op.name == "relax.call_tir"]
    assert calls == ([NAME] if constant else [transform_kernel.__name__, NAME])
    executable = tvm.compile(mod, relax_models.cpu(), relax_pipeline="tvm_stitch")
    machine = relax.VirtualMachine(executable, tvm.cpu())
    made = machine["main"](*map(tvm.runtime.tensor, given)).numpy()
    expected = direct(x, weight, SAME)
    assert np.abs(made - expected).max() < 1e-5 * np.abs(expected).max()


def test_no_transform_is_left_to_run():
    report = tvm_stitch.explain(network(), threads=2)
    assert filtered({group.kernel for group in report.groups})
    assert not [group for group in report.groups if "transform_kernel" in group.ops]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"strides": [2, 2]}, id="stride"),
        pytest.param({"dilations": [2, 2], "pads": [2] * 4}, id="dilation"),
        pytest.param({"group": 2}, id="groups"),
        pytest.param({"taps": 5, "pads": [2] * 4}, id="5x5"),
        pytest.param({"size": (31, 32)}, id="odd-height"),
        pytest.param({"size": (32, 33)}, id="odd-width"),
        pytest.param({"channels": (3, 64)}, id="few-channels"),
        pytest.param({"channels": (64, 63)}, id="ragged-channels"),
        pytest.param({"dtype": "float16"}, id="float16"),
        pytest.param({"size": (2, 2)}, id="few-tiles"),
        pytest.param({"channels": (512, 512), "size": (4, 4)}, id="small-image"),
    ],
)
def test_other_convolutions_stay_direct(options):
    report = tvm_stitch.explain(network(**options), threads=2)
    assert not filtered({group.kernel for group in report.groups})


def test_a_weight_of_two_convolutions_has_the_form_that_each_wants():
    g = Graph("shared")
    w = g.weight("w", (64, 64, 3, 3))
    for name, size in (("x", 32), ("z", 31)):
        image = g.input(name, (1, 64, size, size))
        g.output(g.op("Conv", image, w, pads=[1] * 4), f"{name}_y", (1, 64, size, size))
    report = tvm_stitch.explain(g.model(), threads=2)
    assert len(filtered({group.kernel for group in report.groups})) == 1
    assert report.weight_bytes == 4 * 64 * 64 * 9
    assert report.resident_weight_bytes == 4 * 64 * 64 * (9 + 36)


@pytest.mark.parametrize(("l3_mib", "name"), [(64, NAME), (3, "convolve")])
def test_a_transformed_kernel_that_leaves_its_level_of_memory_must_still_pay(l3_mib, name):
    x, weight = relax_models.arrays((1, 14, 14, 256), (256, 256, 3, 3))
    mod = relax_models.module(lone, x, weight)
    mod["main"] = mod["main"].with_attr("num_input", 1)
    device = dataclasses.replace(sc.device(), l2_bytes=1 << 20, l3_bytes=l3_mib << 20)
    kernels = {
        gvar.name_hint for gvar in PackWeights(device, arrays=[weight])(mod).get_global_vars()
    }
    assert name in kernels


@pytest.mark.parametrize("special", [np.inf, np.nan, 2.0**41, None], ids=str)
def test_weights_that_may_be_infinite_or_huge_stay_direct(special):
    x, weight = relax_models.arrays((1, 32, 32, 64), (64, 64, 3, 3))
    arrays = [weight] if special is not None else []
    mod = relax_models.module(lone, x, weight)
    mod["main"] = mod["main"].with_attr("num_input", 1)
    kernels = {v.name_hint for v in PackWeights(sc.device(), arrays=arrays)(mod).get_global_vars()}
    assert (NAME in kernels) == (special is not None)
    weight[0, 0, 0, 0] = special
    kernels = {v.name_hint for v in PackWeights(sc.device(), arrays=arrays)(mod).get_global_vars()}
    assert NAME not in kernels


@pytest.mark.parametrize("channels", [32, 40])
def test_a_norm_over_channels_behind_it_is_right(channels):
    g = Graph("winograd_norm")
    x = g.input("x", (1, channels, 16, 16))
    weight = g.weight("w", (channels, channels, 3, 3))
    y = g.op("Conv", x, weight, g.weight("b", (channels,)), pads=[1] * 4)
    y = g.op("Transpose", y, perm=[0, 2, 3, 1])
    scale, shift = g.weight("s", (channels,)), g.weight("t", (channels,))
    y = g.op("LayerNormalization", y, scale, shift, axis=-1)
    g.output(y, "y", ("batch", "height", "width", "channels"))
    model = g.model()
    inputs = sc.zoo.random_inputs(model)
    built = sc.compiled(model, 2)
    assert filtered(built.kernels)
    expected = exactly(model, inputs)
    sc.assert_close(built.model.run(inputs), {"y": expected.astype("f8")}, 1e-5)
