"""Random numbers: of the distribution that is asked for, the same in each run."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from scipy import stats

import tvm_stitch

LIKE = (30, 1000)


def compiled(op, opset=18, given=None, **attrs):
    info = helper.make_tensor_value_info
    kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16}
    inputs = [] if given is None else [info("x", kinds[given.dtype], given.shape)]
    node = helper.make_node(op, [] if given is None else ["x"], ["y"], **attrs)
    kind = attrs.get("dtype", TensorProto.FLOAT if given is None else kinds[given.dtype])
    if op == "Multinomial":
        kind = attrs.get("dtype", TensorProto.INT32)
    graph = helper.make_graph([node], "drawn", inputs, [info("y", kind, None)])
    opsets = [helper.make_opsetid("", opset)]
    return tvm_stitch.compile(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def draw(op, given=None, **keywords):
    feeds = {} if given is None else {"x": given}
    return compiled(op, given=given, **keywords).run(feeds)["y"]


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "FLOAT16"])
def test_uniform_numbers_fill_their_range_evenly(kind):
    dtype = getattr(TensorProto, kind)
    made = draw("RandomUniform", shape=LIKE, low=-1.0, high=3.0, dtype=dtype).astype("f8")
    assert made.shape == LIKE and made.min() >= -1 and made.max() <= 3
    assert stats.kstest(made.ravel(), "uniform", (-1, 4)).pvalue > 1e-3
    assert abs(np.corrcoef(made[:, 1:].ravel(), made[:, :-1].ravel())[0, 1]) < 0.03


@pytest.mark.parametrize(("opset", "op"), [(7, "RandomNormal"), (18, "RandomNormalLike")])
def test_normal_numbers_have_their_mean_and_deviation(opset, op):
    given = np.zeros(LIKE, np.float32) if op.endswith("Like") else None
    more = {} if given is not None else {"shape": LIKE}
    made = draw(op, given, opset=opset, mean=2.0, scale=3.0, **more)
    assert stats.kstest(made.ravel(), "norm", (2, 3)).pvalue > 1e-3


def test_runs_and_compilations_draw_the_same_and_seeds_others():
    first = compiled("RandomNormal", shape=[100], seed=1.0)
    again = compiled("RandomNormal", shape=[100], seed=1.0)
    made = [first.run({})["y"], first.run({})["y"], again.run({})["y"]]
    assert all(np.array_equal(made[0], each) for each in made)
    other = draw("RandomNormal", shape=[100], seed=2.0)
    assert abs(np.corrcoef(made[0], other)[0, 1]) < 0.5


def test_bernoulli_is_one_as_often_as_is_asked():
    given = np.repeat(np.array([[0.0], [0.3], [1.0]], np.float32), 20_000, axis=1)
    made = draw("Bernoulli", given)
    assert set(np.unique(made)) == {0, 1}
    np.testing.assert_allclose(made.mean(1), [0, 0.3, 1], atol=0.02)


def test_multinomial_takes_classes_by_their_chances():
    chances = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.3, 0.0, 0.0]], np.float32)
    with np.errstate(divide="ignore"):
        made = draw("Multinomial", np.log(chances), sample_size=20_000)
    assert made.dtype == np.int32
    counts = np.stack([np.bincount(row, minlength=4) for row in made]) / 20_000
    np.testing.assert_allclose(counts, chances, atol=0.02)


def test_none_are_none():
    assert draw("RandomUniform", shape=[0, 3]).shape == (0, 3)
