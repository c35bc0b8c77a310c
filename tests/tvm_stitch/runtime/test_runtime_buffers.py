"""What callers may pass in, and what they get back."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import tvm
from onnx import helper

import tvm_stitch
from support.models.runtime import BFLOAT16, double, gather, linear, onnx_model
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import library


@pytest.fixture(scope="module")
def model():
    return tvm_stitch.compile(double(), threads=1)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)


def _at_offset(array: np.ndarray, offset: int) -> np.ndarray:
    """Copy `array` to an address that is `offset` modulo 64."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    placed = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    placed[...] = array
    assert placed.ctypes.data % 64 == offset
    return placed


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def _misaligned(array: np.ndarray) -> np.ndarray:
    memory = np.zeros(array.nbytes + 1, np.uint8)
    placed = memory[1:].view(array.dtype).reshape(array.shape)
    placed[...] = array
    return placed


IN_PLACE = [
    pytest.param(lambda a: _at_offset(a, 4), id="offset-4"),
    pytest.param(lambda a: _at_offset(a, 16), id="offset-16"),
    pytest.param(lambda a: _at_offset(a, 0), id="aligned"),
    pytest.param(_read_only, id="read-only"),
]
COPIED = [
    pytest.param(lambda a: np.repeat(a, 2, axis=1)[:, ::2], id="strided"),
    pytest.param(np.asfortranarray, id="fortran"),
    pytest.param(lambda a: a[:, ::-1].copy()[:, ::-1], id="reversed"),
    pytest.param(lambda a: np.broadcast_to(a[:1], a.shape), id="broadcast"),
    pytest.param(lambda a: a.astype(">f4"), id="big-endian"),
    pytest.param(_misaligned, id="misaligned"),
]


@pytest.mark.parametrize("lay_out", [*IN_PLACE, *COPIED])
def test_any_layout_gives_the_same_result_and_is_not_written(model, x, lay_out):
    given = lay_out(x)
    before = given.copy()
    np.testing.assert_array_equal(model.run({"x": given})["y"], 2 * before)
    np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize("lay_out", IN_PLACE)
def test_a_contiguous_array_is_passed_where_it_is(model, x, lay_out):
    given = lay_out(x)
    slot = model._slots["x"]
    assert slot.place(given) is given
    assert slot.tensor.shape == given.shape
    assert slot._data.value == given.ctypes.data


def test_scalars_go_in_and_out():
    model = tvm_stitch.compile(double(shape=()), threads=1)
    y = model.run({"x": np.float32(1.5)})["y"]
    assert y.shape == () and y == 3
    assert model.run({"x": np.array(2, np.float32)})["y"] == 4


def test_an_extent_of_zero_goes_in_and_out():
    model = tvm_stitch.compile(double(shape=(0, 3)), threads=1)
    assert model.run({"x": np.zeros((0, 3), np.float32)})["y"].shape == (0, 3)


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint32"],
)
def test_every_dtype_keeps_its_values(dtype):
    model = tvm_stitch.compile(double(dtype, (3, 5)), threads=1)
    given = np.arange(15).reshape(3, 5).astype(dtype)
    y = model.run({"x": given})["y"]
    assert y.dtype == given.dtype
    np.testing.assert_array_equal(y, given + given)


def test_booleans_go_in_and_out():
    node = helper.make_node("Not", ["x"], ["y"])
    given = np.array([True, False, True])
    model = tvm_stitch.compile(onnx_model([node], [("x", "bool", (3,))], [("y", "bool", (3,))]))
    np.testing.assert_array_equal(model.run({"x": given})["y"], ~given)


def test_bfloat16_goes_in_and_out():
    model = tvm_stitch.compile(double("bfloat16", (3, 5)), threads=1)
    given = np.arange(15).reshape(3, 5).astype(BFLOAT16)
    y = model.run({"x": given})["y"]
    assert y.dtype == BFLOAT16 and y.shape == (3, 5)
    np.testing.assert_array_equal(y, given + given)


def test_bfloat16_of_torch_goes_in_and_out():
    torch = pytest.importorskip("torch")
    model = tvm_stitch.compile(double("bfloat16", (3, 5)), threads=1)
    tensor = torch.arange(15, dtype=torch.bfloat16).reshape(3, 5)
    np.testing.assert_array_equal(torch.from_dlpack(model(tensor)).float(), (tensor * 2).float())


def test_names_are_the_models_own():
    model = tvm_stitch.compile(double(name="input.1"), threads=1)
    assert list(model.run({"input.1": np.ones((4, 64), np.float32)})) == ["y"]


def test_inputs_and_outputs_keep_their_order():
    nodes = [helper.make_node("Sub", ["b", "a"], ["z"]), helper.make_node("Neg", ["a"], ["y"])]
    edges = [(name, "float32", (2,)) for name in "baz"]
    model = tvm_stitch.compile(onnx_model(nodes, edges[:2], [edges[2], ("y", "float32", (2,))]))
    b, a = np.array([5, 7], np.float32), np.array([1, 2], np.float32)
    assert list(model.run({"a": a, "b": b})) == ["z", "y"]
    z, y = model(b, a)
    np.testing.assert_array_equal(np.from_dlpack(z), b - a)
    np.testing.assert_array_equal(np.from_dlpack(y), -a)


def test_outputs_are_writable_and_stay_as_they_are(model, x):
    kept = [model.run({"x": x + step})["y"] for step in range(8)]
    for step, y in enumerate(kept):
        np.testing.assert_array_equal(y, 2 * (x + step))
        y[...] = -1
    assert len({y.ctypes.data for y in kept}) == len(kept)
    np.testing.assert_array_equal(model.run({"x": x})["y"], 2 * x)


def test_outputs_outlive_their_model(x):
    model = tvm_stitch.compile(double(), threads=1)
    y = model.run({"x": x})["y"]
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    np.testing.assert_array_equal(y, 2 * x)


def test_an_output_does_not_alias_its_input(x):
    node = helper.make_node("Identity", ["x"], ["y"])
    edges = [("x", "float32", (4, 64))], [("y", "float32", (4, 64))]
    model = tvm_stitch.compile(onnx_model([node], *edges), threads=1)
    given = x.copy()
    for y in (model.run({"x": given})["y"], np.from_dlpack(model(given))):
        y[...] = 0
        np.testing.assert_array_equal(given, x)


def test_a_reshaped_input_does_not_alias_it(x):
    node = helper.make_node("Flatten", ["x"], ["y"], axis=0)
    edges = [("x", "float32", (4, 64))], [("y", "float32", (1, 256))]
    model = tvm_stitch.compile(onnx_model([node], *edges), threads=1)
    given = x.copy()
    model.run({"x": given})["y"][...] = 0
    np.testing.assert_array_equal(given, x)


def test_two_outputs_of_one_value_do_not_alias(x):
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in ("y", "z")]
    outputs = [(name, "float32", (4, 64)) for name in ("y", "z")]
    model = tvm_stitch.compile(onnx_model(nodes, [("x", "float32", (4, 64))], outputs), threads=1)
    found = model.run({"x": x})
    found["y"][...] = 0
    np.testing.assert_array_equal(found["z"], x)


def test_a_constant_output_is_not_the_models_own_memory():
    weight = np.arange(6, dtype=np.float32)
    node = helper.make_node("Identity", ["w"], ["y"])
    edges = [("x", "float32", (1,))], [("y", "float32", (6,))]
    model = tvm_stitch.compile(onnx_model([node], *edges, weights={"w": weight}), threads=1)
    given = {"x": np.zeros(1, np.float32)}
    for _ in range(2):
        y = model.run(given)["y"]
        np.testing.assert_array_equal(y, weight)
        y[...] = -1


def test_anything_with_dlpack_may_be_called_with(model, x):
    for given in (tvm.runtime.tensor(x), x):
        assert hasattr(model(given), "__dlpack__")
        np.testing.assert_array_equal(np.from_dlpack(model(given)), 2 * x)


def test_a_view_that_begins_behind_its_tensor_may_be_called_with(model, x):
    wider = tvm.runtime.tensor(np.append(np.float32(0), x))
    view = wider._create_view(x.shape, "float32", 4)
    np.testing.assert_array_equal(np.from_dlpack(model(view)), 2 * x)


def test_tensors_of_torch_may_be_strided(model, x):
    torch = pytest.importorskip("torch")
    torch_x = torch.from_numpy(x.copy())
    for given in (torch_x, torch_x.t().contiguous().t()):
        np.testing.assert_array_equal(torch.from_dlpack(model(given)), 2 * torch_x)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({}, "input x: missing; give x: float32[4, 64]", id="missing"),
        pytest.param({"x": 0, "z": 0}, "input z: the model has no such input", id="unknown"),
        pytest.param({"x": np.zeros((4, 63), np.float32)}, "shape [4, 63]", id="shape"),
        pytest.param({"x": np.zeros((4, 64))}, "dtype float64", id="dtype"),
    ],
)
def test_wrong_inputs_are_told_in_one_line(model, given, told):
    with pytest.raises(StitchError) as raised:
        model.run(given)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_wrong_count_of_tensors_is_told(model):
    with pytest.raises(StitchError, match="2 tensors"):
        model(1, 2)


@pytest.mark.parametrize(("ids", "ok"), [([0, 4], True), ([-5, 1], True), ([0, 5], False),
                                         ([-6, 0], False)])  # fmt: skip
def test_an_index_out_of_range_is_an_error(ids, ok):
    model = tvm_stitch.compile(gather(rows=5), threads=1)
    given = np.array(ids, np.int64)
    if ok:
        expected = np.arange(15, dtype=np.float32).reshape(5, 3)[given]
        np.testing.assert_array_equal(model.run({"ids": given})["y"], expected)
        return
    for call in (lambda: model.run({"ids": given}), lambda: model(tvm.runtime.tensor(given))):
        with pytest.raises(StitchError, match=r"index -?\d is out of range; give values from -5"):
            call()


def test_weights_are_read_where_they_are():
    proto, _ = linear()
    model = tvm_stitch.compile(proto, threads=1)
    fetch = model._library.module.get_function("tvm_stitch_weights", query_imports=True)
    borrowed = {weight.ctypes.data for weight in model._library.stored.weights}
    assert {np.from_dlpack(weight).ctypes.data for weight in fetch()} == borrowed


def test_weights_begin_a_cache_line_and_share_what_they_shared():
    raw = np.zeros(4096, np.uint8)
    raw[:] = np.random.default_rng(3).integers(0, 255, raw.size)
    start = -raw.__array_interface__["data"][0] % 64
    odd = raw[start + 16 : start + 16 + 480].view(np.float32)
    given = [
        odd.reshape(10, 12),
        odd.reshape(12, 10),
        raw[start + 64 : start + 128].view(np.float64),
        np.asfortranarray(odd.reshape(10, 12)),
        np.asfortranarray(odd.reshape(10, 12) + 1),
        np.array(7, np.int64),
        np.zeros((0, 3), np.float16),
        np.array([True, False]),
    ]
    placed = library._on_lines(given)
    addresses = [weight.__array_interface__["data"][0] for weight in placed]
    assert not any(a % 64 for a, weight in zip(addresses, placed, strict=True) if weight.size)
    assert addresses[0] == addresses[1]
    assert addresses[2] == given[2].__array_interface__["data"][0]
    for weight, before in zip(placed, given, strict=True):
        assert (weight.shape, weight.dtype) == (before.shape, before.dtype)
        np.testing.assert_array_equal(weight, before)
        assert weight.flags.c_contiguous
