"""What import_model refuses, each in one line."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from support.frontend.case import FLOAT, INT64, array, indexed, linear, model
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import import_model
from tvm_stitch.frontend.onnx_graph import instance


def negate(kind=FLOAT, shape=(3,), of="x", opset=18):
    node = helper.make_node("Neg", [of], ["y"])
    return model([node], {"x": (kind, shape)}, {"y": (kind, None)}, opset=opset)


UNKNOWN = model(
    [
        helper.make_node("Nope", ["x"], ["h"]),
        helper.make_node("Zip", ["h"], ["i"], "zipped", domain="d"),
        helper.make_node("Nope", ["i"], ["y"]),
    ],
    {"x": (FLOAT, [1])},
    {"y": (FLOAT, [1])},
    opsets=[helper.make_opsetid("d", 1)],
)
UNKNOWN_WORDS = ["Nope 'h' and 1 more, d.Zip 'zipped';", 'fallback="onnxruntime"']
MISFIT = model(
    [helper.make_node("Add", ["x", "w"], ["y"])],
    {"x": (FLOAT, [3])},
    {"y": (FLOAT, None)},
    {"w": array(2)},
)
TO_COMPLEX = model(
    [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.COMPLEX128),
        helper.make_node("Cast", ["h"], ["y"], to=FLOAT),
    ],
    {"x": (FLOAT, [3])},
    {"y": (FLOAT, None)},
)
DATA_DEPENDENT = model(
    [helper.make_node("NonZero", ["x"], ["y"], "found")], {"x": (FLOAT, [3])}, {"y": (INT64, None)}
)
# Indices of an unknown count.
CHOSEN = model(
    [
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("Transpose", ["found"], ["i"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "i"], ["y"]),
    ],
    {"x": (FLOAT, [3])},
    {"y": (FLOAT, None)},
)
OUTSIDE = indexed(
    [
        helper.make_node("Gather", ["t", "i"], ["g"]),
        helper.make_node("Gather", ["g", "ids"], ["y"]),
    ],
    [1],
    {"t": array(2, 2), "i": np.array([2])},
)
COMPLEX = TensorProto.COMPLEX64
N4 = negate(shape=["n", 4])
# Two symbols, one of them twice, and an axis without a name; `m` adds nothing to what is known.
FREE = model(
    [
        helper.make_node("Add", ["x", "m"], ["h"]),
        helper.make_node("Add", ["h", "z"], ["y"]),
    ],
    {"x": (FLOAT, ["batch", "seq", 4]), "m": (FLOAT, ["seq", 4]), "z": (FLOAT, [None, 1, 4])},
    {"y": (FLOAT, None)},
)
FREE_WORDS = [
    "'batch' (axis 0 of 'x'), 'seq' (axis 1 of 'x'), axis 0 of 'z';",
    "--shape x=1,1,4 --shape z=1,1,4 (",
    "tvm-stitch run --specialize",
    "tvm_stitch.Specialised",
]
INDICES = model(
    [helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[65, 65])],
    {"x": (FLOAT, [1, 1, 5000, 5000])},  # of fewer windows the places are computed
    {"y": (FLOAT, None), "i": (INT64, None)},
)


def looping(count: int, takes: int = 3, inner: onnx.NodeProto | None = None) -> onnx.NodeProto:
    """Return a loop over one value, whose body takes so many."""
    info = helper.make_tensor_value_info
    names = ["i", "c", "s", "t"][:takes]
    kinds = {"i": (INT64, []), "c": (TensorProto.BOOL, [])}
    body = helper.make_graph(
        [inner or helper.make_node("Neg", ["s"], ["r"])],
        "body",
        [info(name, *kinds.get(name, (FLOAT, [3]))) for name in names],
        [info("c", *kinds["c"]), info("r", FLOAT, [3])],
    )
    return helper.make_node("Loop", [f"n{count}", "", "s"], ["r"], body=body)


def looped(node: onnx.NodeProto) -> onnx.ModelProto:
    copy = helper.make_node("Identity", ["x"], ["s"])
    last = helper.make_node("Identity", ["r"], ["y"])
    counts = {f"n{count}": np.array(count) for count in (3, 100)}
    return model([copy, node, last], {"x": (FLOAT, [3])}, {"y": (FLOAT, [3])}, counts)


SPECTRUM = model(
    [helper.make_node("DFT", ["x"], ["y"])],
    {"x": (FLOAT, [1, 100_000, 1])},
    {"y": (FLOAT, None)},
)


@pytest.mark.parametrize(
    ("proto", "shapes", "words"),
    [
        pytest.param(N4, None, ["'x'", "'n'", "--shape x=1,4"], id="unbound"),
        pytest.param(negate(shape=[None, 4]), None, ["axis 0", "--shape x=1,4"], id="unnamed"),
        pytest.param(N4, {"z": (1, 4)}, ["'z'", "no such input", "x"], id="name"),
        pytest.param(N4, {"x": (1, 4, 1)}, ["3 axes", "not 2"], id="rank"),
        pytest.param(N4, {"x": (1, 5)}, ["axis 1 is fixed to 4"], id="fixed"),
        pytest.param(negate(shape=["n", "n"]), {"x": (1, 5)}, ["'n' is 1"], id="contradiction"),
        pytest.param(N4, {"x": ("batch", 4)}, ["a name is bound when"], id="symbol"),
        pytest.param(N4, {"x": (-1, 4)}, ["-1 is no extent"], id="negative"),
        pytest.param(FREE, None, FREE_WORDS, id="all-unbound"),
        pytest.param(FREE, {"x": (2, 3, 4)}, ["known of axis 0 of 'z';"], id="one-unbound"),
        pytest.param(UNKNOWN, None, UNKNOWN_WORDS, id="unknown-ops"),
        pytest.param(looped(looping(3, 4)), None, ["4 inputs but 3"], id="other-body"),
        pytest.param(SPECTRUM, None, ["DFT", 'fallback="on'], id="long-spectrum"),
        pytest.param(negate(opset=0), None, ["opset 0"], id="old-opset"),
        pytest.param(TO_COMPLEX, None, ["Cast", "complex128"], id="cast-to-complex"),
        pytest.param(MISFIT, None, ["Add", "do not fit"], id="shapes-do-not-fit"),
        pytest.param(
            DATA_DEPENDENT, None, ["NonZero 'found'", "'y'", "depends on data"], id="data-dependent"
        ),
        pytest.param(CHOSEN, None, ["'y'", "depends on data"], id="data-dependent-indices"),
        pytest.param(negate(COMPLEX), None, ["complex64"], id="complex"),
        pytest.param(negate(of="q"), None, ["invalid ONNX"], id="dangling"),
        pytest.param(N4, {"x": 5}, ["5 is no tuple"], id="no-tuple"),
        pytest.param(INDICES, None, ["MaxPool", "refuses"], id="optional-output"),
        pytest.param(OUTSIDE, None, ["outside -2 to 1"], id="constant-index"),
    ],
)
def test_refuses_in_one_line(proto, shapes, words):
    with pytest.raises(StitchError) as caught:
        import_model(proto, shapes)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def broken_files():
    data = linear(3).SerializeToString()
    yield "missing", None, "No such file"
    yield "empty", b"", "empty"
    yield "text", b"hello, this is not a model\n" * 50, "not an ONNX model"
    yield "truncated", data[: len(data) // 2], "not an ONNX model"
    yield "cut-tail", data[:-3], "not an ONNX model"


@pytest.mark.parametrize(("data", "word"), [pytest.param(d, w, id=i) for i, d, w in broken_files()])
def test_refuses_broken_files(tmp_path, data, word):
    path = tmp_path / "m.onnx"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(StitchError, match=word) as caught:
        import_model(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["missing", "short", "outside"])
def test_refuses_broken_external_data(tmp_path, damage):
    path = tmp_path / "m.onnx"
    onnx.save(linear(3), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    if damage == "missing":
        (tmp_path / "w.bin").unlink()
    elif damage == "short":
        (tmp_path / "w.bin").write_bytes(b"1234")
    else:
        proto = onnx.load(path, load_external_data=False)
        proto.graph.initializer[0].external_data[0].value = "../w.bin"
        path.write_bytes(proto.SerializeToString())
    with pytest.raises(StitchError, match=r"w\.bin"):
        import_model(path)


def test_refuses_what_is_no_model():
    with pytest.raises(StitchError, match="not a model"):
        import_model(42)


def test_loops_in_loops_are_written_out_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(instance, "MOST_NODES", 5_000)
    nested = looped(looping(100, inner=looping(100, inner=looping(3))))
    with pytest.raises(StitchError, match="more than 5000 nodes"):
        import_model(nested)
