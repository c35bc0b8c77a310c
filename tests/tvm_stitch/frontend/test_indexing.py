"""Operators that index by tensors, through each importer: inside, from the end, outside, computed.

Each model indexes by an input `i`, and by a product of inputs `j` and `k` that nothing proves to be
inside. A graph input outside its axis is one line; a computed index outside is clamped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tvm import relax
from tvm.relax import op

import tvm_stitch
from support.frontend.case import INT64, array, indexed, model
from support.kernels import memory
from support.models.relax_models import module
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import import_model

torch = pytest.importorskip("torch")

ROWS, COLUMNS = 5, 3
X = np.arange(1, ROWS * COLUMNS + 1, dtype=np.float32).reshape(ROWS, COLUMNS)
UPDATES = -np.arange(1, 2 * COLUMNS + 1, dtype=np.float32).reshape(2, COLUMNS)


@dataclass(frozen=True)
class Reader:
    """An operator on X by an int64 index of `shape`; `numpy` gives its result for one inside.

    `onnx`: its operator and attributes; `torch` and `relax`: how it is written there.
    """

    shape: tuple[int, ...]
    numpy: Callable[[np.ndarray], np.ndarray]
    onnx: tuple[str, dict] | None = None
    torch: Callable[..., object] | None = None
    relax: Callable[..., object] | None = None
    updates: np.ndarray | None = None
    from_end: tuple[str, ...] = ("onnx", "torch")  # importers for which -1 is the last


def scattered(i: np.ndarray) -> np.ndarray:
    out = X.copy()
    np.put_along_axis(out, i, UPDATES, 0)
    return out


def put(i: np.ndarray) -> np.ndarray:
    out = X.copy()
    out[i] = UPDATES
    return out


ALL = ("onnx", "torch", "relax")
READERS = {
    "take": Reader((2,), lambda i: X[i], ("Gather", {}), lambda x, i: x[i],
                   lambda x, i: op.take(x, i, 0)),
    "embedding": Reader((2, 2), lambda i: X[i],
                        torch=lambda x, i: torch.nn.functional.embedding(i, x), from_end=()),
    "gather_elements": Reader(
        (2, COLUMNS), lambda i: np.take_along_axis(X, i, 0), ("GatherElements", {"axis": 0}),
        lambda x, i: torch.gather(x, 0, i), lambda x, i: op.gather_elements(x, i, 0),
        from_end=("onnx",)),
    "gather_nd": Reader((2, 1), lambda i: X[i[:, 0]], ("GatherND", {}),
                        relax=op.gather_nd),
    "index_tensor": Reader((2,), lambda i: X[i, [0, 2]],
                           torch=lambda x, i: x[i, torch.tensor([0, 2])],
                           relax=lambda x, i: op.index_tensor(x, [i, relax.const([0, 2], "int64")]),
                           from_end=ALL),
    "scatter_elements": Reader(
        (2, COLUMNS), scattered, ("ScatterElements", {"axis": 0}),
        lambda x, i, u: torch.scatter(x, 0, i, u),
        lambda x, i, u: op.scatter_elements(x, i, u, 0), UPDATES, from_end=ALL),
    "scatter_nd": Reader((2, 1), lambda i: put(i[:, 0]), ("ScatterND", {}),
                         relax=op.scatter_nd, updates=UPDATES,
                         from_end=("onnx", "relax")),
    "index_put": Reader((2,), put, torch=lambda x, i, u: torch.ops.aten.index_put(x, [i], u),
                        updates=UPDATES),
}  # fmt: skip


def onnx_model(reader: Reader) -> onnx.ModelProto:
    kind, attrs = reader.onnx
    tail = [] if reader.updates is None else ["u"]
    nodes = [
        helper.make_node("Mul", ["j", "k"], ["jk"]),
        helper.make_node(kind, ["x", "i", *tail], ["a"], **attrs),
        helper.make_node(kind, ["x", "jk", *tail], ["b"], **attrs),
    ]
    inputs = {
        "x": (TensorProto.FLOAT, X.shape),
        **{name: (INT64, reader.shape) for name in "ij"},
        "k": (INT64, [1]),
    }
    outputs = {name: (TensorProto.FLOAT, None) for name in "ab"}
    weights = {} if reader.updates is None else {"u": reader.updates}
    return model(nodes, inputs, outputs, weights)


def torch_model(reader: Reader):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.u = None if reader.updates is None else torch.nn.Parameter(torch.tensor(UPDATES))

        def forward(self, x, i, j, k):
            tail = () if self.u is None else (self.u,)
            return reader.torch(x, i, *tail), reader.torch(x, j * k, *tail)

    index = torch.zeros(reader.shape, dtype=torch.int64)
    arguments = (torch.tensor(X), index, index.clone(), torch.zeros(1, dtype=torch.int64))
    return torch.export.export(Net().eval(), arguments)


def relax_model(reader: Reader):
    def emit(builder, x, i, j, k):
        tail = () if reader.updates is None else (relax.const(UPDATES),)
        computed = builder.emit(op.multiply(j, k))
        made = (builder.emit(reader.relax(x, index, *tail)) for index in (i, computed))
        return tuple(made)

    index = np.zeros(reader.shape, np.int64)
    return module(emit, X, index, index, np.zeros(1, np.int64))


MODELS = {"onnx": onnx_model, "torch": torch_model, "relax": relax_model}
CASES = [
    pytest.param(name, importer, id=f"{name}-{importer}")
    for name, reader in READERS.items()
    for importer in MODELS
    if getattr(reader, importer) is not None
]


@pytest.mark.long(every=5)
@pytest.mark.parametrize(("name", "importer"), CASES)
def test_an_index_is_inside_or_told_or_clamped(name, importer):
    reader = READERS[name]
    compiled = tvm_stitch.compile(MODELS[importer](reader), threads=1)
    from_end = importer in reader.from_end

    def run(i: np.ndarray, j: np.ndarray, k: int) -> list[np.ndarray]:
        arrays = [X, i, j, np.array([k], np.int64)]
        names = [spec.name for spec in compiled.meta.inputs]
        feeds = dict(zip(names, arrays, strict=True))
        kept = {n: memory.guarded(a, at_end=True, writable=False) for n, a in feeds.items()}
        return list(compiled.run(kept).values())

    rng = np.random.default_rng(1)
    inside = rng.permuted(np.tile(np.arange(ROWS), (COLUMNS, 1)), axis=1).T
    inside = inside.reshape(-1)[: np.prod(reader.shape)].reshape(reader.shape).astype(np.int64)
    for index in [inside, inside - ROWS] if from_end else [inside]:
        for got in run(index, index, 1):
            np.testing.assert_array_equal(got, reader.numpy(index % ROWS))

    for outside in (ROWS, -ROWS - 1 if from_end else -1, 1 << 40):
        wrong = inside.copy()
        wrong.flat[-1] = outside
        with pytest.raises(StitchError, match=f"index {outside} is out of range"):
            run(wrong, inside, 1)

    def beyond() -> None:
        for k in (1, 1000, -1000, 1 << 32, 1 << 62):
            j = np.full(reader.shape, ROWS, np.int64)
            got = run(inside, j, k)[1]
            last = 0 if k < 0 else ROWS - 1
            np.testing.assert_array_equal(got, reader.numpy(np.full(reader.shape, last)))

    assert memory.in_child(beyond) == 0


def test_what_pytorch_does_with_several_indices():
    x = torch.arange(5 * 6 * 7 * 4, dtype=torch.float32).reshape(5, 6, 7, 4)
    i, j = torch.tensor([0, -2, 4]), torch.tensor([[1, 5, -6], [0, -1, 3]])

    class Net(torch.nn.Module):
        def forward(self, x, i, j):
            aten = torch.ops.aten
            return {
                "last": x[..., i % 4],
                "neighbours": x[:, j, i],
                "apart": x[i, :, j],
                "three": x[:, j, i, 1 + i % 3],
                "take": x.take(j * 100),
                "put": aten.index_put(x, [None, i, i], x[:, 0, :3] - 1),
                "put_apart": aten.index_put(x, [i, None, i], x[:3, :, 0] - 1),
                "added": aten.index_put(x, [i % 2], x[:3], True),
                "masked": aten.index_put(x, [x > 9], torch.tensor(-1.0)),
                "scattered": x.scatter_add(1, (x[:4, :3, :5, :2] % 6).long(), x),
                "sampled": torch.nn.functional.grid_sample(
                    x, x[..., :2] / 400 - 1, align_corners=False
                ),
            }

    net = Net().eval()
    compiled = tvm_stitch.compile(torch.export.export(net, (x, i, j)), threads=1)
    assert compiled.meta.index_bounds["i"] == (-5, 4)
    got = compiled.run({"x": x.numpy(), "i": i.numpy(), "j": j.numpy()})
    for name, want in net(x, i, j).items():
        np.testing.assert_allclose(got[name], want.numpy(), rtol=1e-5, err_msg=name)


def test_an_importer_that_makes_another_shape_than_pytorch_is_refused(monkeypatch):
    torch_import = pytest.importorskip("tvm_stitch.frontend.torch_import")
    monkeypatch.setitem(
        torch_import.CONVERTERS,
        "relu.default",
        lambda node, importer: importer.env[node.args[0].args[0]],
    )
    net = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.ReLU())
    with pytest.raises(StitchError, match=r"relu.*makes shape \[2, 3\] of it, not \[6\]"):
        import_model(torch.export.export(net, (torch.ones(2, 3),)))


def test_regions_and_unpooled_places_are_bounded():
    nodes = [
        helper.make_node("RoiAlign", ["x", "boxes", "batch"], ["a"]),
        helper.make_node("MaxUnpool", ["x", "i"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    image = (2, 1, 3, 3)
    inputs = {"x": (TensorProto.FLOAT, image), "boxes": (TensorProto.FLOAT, (4, 4)),
              "batch": (INT64, [4]), "i": (INT64, image)}  # fmt: skip
    proto = model(nodes, inputs, {name: (TensorProto.FLOAT, None) for name in "ab"})
    assert import_model(proto).index_bounds == {"batch": (0, 1), "i": (0, 71)}


def test_an_input_of_which_only_some_elements_are_indices_is_not_bounded():
    table, small = array(1000, 4), array(10, 4)
    nodes = [
        helper.make_node("Split", ["ids"], ["first", "second"], axis=0, num_outputs=2),
        helper.make_node("Gather", ["table", "first"], ["a"]),
        helper.make_node("Less", ["second", "zero"], ["below"]),
        helper.make_node("Where", ["below", "zero", "second"], ["raised"]),
        helper.make_node("Gather", ["small", "raised"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=0),
    ]
    proto = indexed(nodes, [2], {"table": table, "small": small, "zero": np.array([0])})
    compiled = tvm_stitch.compile(proto, threads=1)
    assert compiled.meta.index_bounds == {}
    got = compiled.run({"ids": np.array([999, -100])})["y"]
    np.testing.assert_array_equal(got, [table[999], small[0]])
    got = compiled.run({"ids": np.array([-1001, 10])})["y"]  # outside: clamped
    np.testing.assert_array_equal(got, [table[0], small[9]])


@pytest.mark.parametrize(
    ("kind", "fed", "row"),
    [
        pytest.param("argmax", [0, 1, 0], 2, id="argmax"),
        pytest.param("argmax", [0, 0, 1], 2, id="argmax-past-the-end"),
        pytest.param("cast", [np.nan] * 3, 0, id="nan"),
        pytest.param("cast", [1e30] * 3, None, id="huge"),
        pytest.param("cast", [-np.inf] * 3, 0, id="minus-infinity"),
    ],
)
def test_an_index_that_the_model_computes_out_of_a_float(kind, fed, row):
    nodes = [
        helper.make_node("ArgMax", ["v"], ["best"], keepdims=0)
        if kind == "argmax"
        else helper.make_node("ReduceMax", ["v"], ["best"], keepdims=0),
        helper.make_node("Cast", ["best"], ["whole"], to=INT64),
        helper.make_node("Add", ["whole", "one"], ["i"]),
        helper.make_node("Gather", ["x", "i"], ["y"]),
    ]
    one = np.array(1 if kind == "argmax" else 0)
    inputs = {"x": (TensorProto.FLOAT, [3, 2]), "v": (TensorProto.FLOAT, [3])}
    proto = model(nodes, inputs, {"y": (TensorProto.FLOAT, None)}, {"one": one})
    compiled = tvm_stitch.compile(proto, threads=1)
    x = memory.guarded(np.arange(6, dtype="f4").reshape(3, 2), at_end=True, writable=False)

    def work() -> None:
        got = compiled.run({"x": x, "v": np.array(fed, "f4")})["y"]
        assert any(np.array_equal(got, x[r]) for r in ([row] if row is not None else range(3)))

    assert memory.in_child(work) == 0


def test_an_index_in_a_branch_is_clamped_and_checked_only_where_it_is_read():
    def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, [5, 3])
        return helper.make_graph(list(nodes), name, [], [out])

    taken = branch(
        "taken",
        helper.make_node("ScatterND", ["x", "rows", "u"], ["put"]),
        helper.make_node("GatherElements", ["put", "i"], ["picked"], axis=0),
    )
    other = branch("other", helper.make_node("Neg", ["x"], ["turned"]))
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=taken, else_branch=other)]
    inputs = {"c": (TensorProto.BOOL, []), "x": (TensorProto.FLOAT, [5, 3]),
              "i": (INT64, [5, 3]), "rows": (INT64, [2, 1])}  # fmt: skip
    proto = model(nodes, inputs, {"y": (TensorProto.FLOAT, [5, 3])}, {"u": UPDATES})
    compiled = tvm_stitch.compile(proto, threads=1)
    put = X.copy()
    put[[1, 4]] = UPDATES

    def run(c: bool, rows: list[list[int]], index: int) -> np.ndarray:
        feeds = {"c": np.array(c), "x": X, "i": np.full((5, 3), index), "rows": np.array(rows)}
        kept = {n: memory.guarded(a, at_end=True, writable=False) for n, a in feeds.items()}
        return compiled.run(kept)["y"]

    def work() -> None:
        np.testing.assert_array_equal(run(True, [[1], [4]], -1), np.tile(put[4], (5, 1)))
        np.testing.assert_array_equal(run(False, [[1], [99]], 99), -X)
        np.testing.assert_array_equal(run(True, [[1], [99]], 1 << 40), np.tile(put[4], (5, 1)))

    assert memory.in_child(work) == 0


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scatter_takes_indices_smaller_than_its_data(axis):
    x, u = array(3, 4, 5), array(2, 2, 2)
    i = np.array([1, 0, 0, -1, 1, 1, -1, 0]).reshape(2, 2, 2)
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=axis, reduction="add")
    inputs = {"x": (TensorProto.FLOAT, x.shape), "i": (INT64, i.shape)}
    proto = model([node], inputs, {"y": (TensorProto.FLOAT, None)}, {"u": u})
    want = x.copy()
    for at in np.ndindex(i.shape):
        place = list(at)
        place[axis] = i[at]
        want[tuple(place)] += u[at]
    compiled = tvm_stitch.compile(proto, threads=2)
    np.testing.assert_allclose(compiled.run({"x": x, "i": i})["y"], want, rtol=1e-6)


def test_a_constant_index_outside_is_refused():
    def emit(_builder, x):
        return op.take(x, relax.const(np.array([0, 5]), "int64"), 0)

    with pytest.raises(StitchError, match="holds 0 to 5, outside 0 to 4"):
        import_model(module(emit, X))


@pytest.mark.parametrize("outside", [False, True])
def test_known_places_are_clamped_only_if_one_is_outside_its_own_axis(outside):
    x, places = array(2, 500), np.arange(4000) % 500
    places = np.stack([places % 2, places], 1)
    places[7, 0] = 400 if outside else -1  # inside the longer axis
    node = helper.make_node("GatherND", ["x", "places"], ["y"])
    inputs, outputs = {"x": (TensorProto.FLOAT, [2, 500])}, {"y": (TensorProto.FLOAT, [4000])}
    proto = model([node], inputs, outputs, {"places": places})
    assert ("R.min(" in import_model(proto).mod["main"].script()) == outside
    got = tvm_stitch.compile(proto, threads=1).run({"x": x})["y"]
    np.testing.assert_array_equal(got, x[places[:, 0].clip(-2, 1), places[:, 1]])
