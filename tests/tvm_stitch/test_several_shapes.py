"""One file for several shapes: an entry each, weights once, equal kernels once."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import zoo

import tvm_stitch
from tvm_stitch.cli import main
from tvm_stitch.frontend.shape_sets import shape_sets

NAMES = ("input_ids", "token_type_ids", "attention_mask")
SHAPES = [(1, 8), (1, 32), (2, 5)]
BELOW = {"input_ids": 100, "token_type_ids": 2, "attention_mask": 2}


@pytest.fixture(scope="module")
def model():
    sizes = {"hidden": 64, "heads": 4, "vocabulary": 100}
    return zoo.model("bert", layers=1, seq=16, dynamic=True, **sizes)


@pytest.fixture(scope="module")
def compiled(model):
    return tvm_stitch.compile(model, shapes={name: SHAPES for name in NAMES})


def feeds(shape) -> dict[str, np.ndarray]:
    rng = np.random.default_rng()
    given = {name: rng.integers(0, below, shape) for name, below in BELOW.items()}
    # Of a row that is masked whole, float32 keeps a thousandth of the scores beside -10000.
    given["attention_mask"][:, 0] = 1
    return given


def compared(model, made) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for shape in [*SHAPES, SHAPES[0]]:
        given = feeds(shape)
        got = made.run(given)
        for one, other in zip(got.values(), session.run(None, given), strict=True):
            error = np.abs(one.astype(np.float64) - other)
            assert (error <= 1e-5 * (np.abs(other) + np.abs(other).max())).all()


def test_every_shape_is_right(model, compiled):
    compared(model, compiled)


def test_a_file_is_loaded_with_all_shapes_and_holds_the_weights_once(model, compiled, tmp_path):
    path = tmp_path / "model.so"
    compiled.export(path)
    compared(model, tvm_stitch.load(path))
    weights, code = [], []
    for number, shape in enumerate(SHAPES):
        alone = tvm_stitch.compile(model, shapes=dict.fromkeys(NAMES, shape))
        alone.export(apart := tmp_path / f"{number}.so")
        weights.append(alone.report.weight_bytes)
        code.append(apart.stat().st_size - weights[-1])
    assert compiled.report.weight_bytes == weights[0]
    assert path.stat().st_size - weights[0] <= (len(SHAPES) + 1) * max(code)


def test_weights_are_not_packed_for_each_shape(model, compiled):
    stored = compiled.models[0]._library.stored
    total = sum(weight.nbytes for weight in stored.weights)
    alone = sum(t.raw_data.__len__() for t in model.graph.initializer)
    assert total <= 1.25 * alone


def test_equal_kernels_of_shapes_are_one():
    graph = zoo.model("mlp_1", layers=2, batch=8)
    names = [value.name for value in graph.graph.input]
    (name,) = names
    width = graph.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    graph.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    del graph.graph.output[0].type.tensor_type.shape.dim[0]
    made = tvm_stitch.compile(graph, shapes={name: [(8, width), (16, width)]})
    for rows in (8, 16):
        x = np.random.default_rng().standard_normal((rows, width)).astype(np.float32)
        assert next(iter(made.run({name: x}).values())).shape[0] == rows


def test_tensors_pick_their_shape(compiled):
    given = feeds(SHAPES[2])
    order = [spec.name for spec in compiled.meta.inputs]
    made = compiled(*(torch.from_numpy(given[name]) for name in order))
    wanted = compiled.run(given)
    for one, other in zip(made, wanted.values(), strict=True):
        assert np.array_equal(one.numpy(), other)


def test_another_shape_is_refused_with_those_there_are(compiled):
    with pytest.raises(tvm_stitch.StitchError, match=r"\[1, 9\].*give \[1, 8\]"):
        compiled.run(feeds((1, 9)))


def test_names_are_checked_as_ever(compiled):
    with pytest.raises(tvm_stitch.StitchError, match="no such input"):
        compiled.run({**feeds(SHAPES[0]), "other": np.zeros(3)})


@pytest.mark.parametrize(
    ("shapes", "rule"),
    [
        ({"a": [(1,), (2,)], "b": [(1,)]}, "different lengths"),
        ({"a": [(1,), (1,)]}, "twice"),
    ],
)
def test_lists_that_do_not_fit_are_refused(shapes, rule):
    with pytest.raises(tvm_stitch.StitchError, match=rule):
        shape_sets(shapes)


def test_one_shape_is_in_all_sets():
    assert shape_sets({"a": [(1,), (2,)], "b": (3,)}) == [
        {"a": (1,), "b": (3,)},
        {"a": (2,), "b": (3,)},
    ]


def test_only_one_shape_is_explained(model):
    with pytest.raises(tvm_stitch.StitchError, match="one is looked at at a time"):
        tvm_stitch.explain(model, shapes={name: SHAPES for name in NAMES})


@pytest.mark.long
def test_the_command_takes_a_shape_several_times(model, tmp_path):
    path, out = tmp_path / "model.onnx", tmp_path / "model.so"
    onnx.save(model, path)
    given = [f"--shape={name}={rows},{columns}" for name in NAMES for rows, columns in SHAPES[:2]]
    assert main(["compile", str(path), *given, "-o", str(out)]) == 0
    assert len(tvm_stitch.load(out).models) == 2
