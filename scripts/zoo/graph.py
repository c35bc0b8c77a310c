"""A small ONNX graph writer that lays out and names nodes as PyTorch's exporter does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import TensorProto, helper

from zoo.weights import numpy_dtype, seeded

Dim = int | str  # a str is a symbolic dimension
REDUCTIONS_WITH_AXES_ATTRIBUTE = 17  # last opset before all of them but ReduceSum took an input


class Graph:
    """Collects nodes, weights, inputs and outputs; `model()` closes it.

    Values are named `/scope/Op_output_0` and weights by their dotted name, both stable from run to
    run. A weight's numbers depend on its name, shape and `seed` alone.
    """

    def __init__(self, name: str, dtype: str = "float32", opset: int = 17, seed: int = 0) -> None:
        self.name, self.dtype, self.opset, self.seed = name, dtype, opset, seed
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.metadata: dict[str, str] = {}
        self._scope: list[str] = []
        self._count: Counter[str] = Counter()

    @contextmanager
    def scope(self, path: str) -> Iterator[None]:
        """Prefix the names of the nodes made inside with `path`."""
        self._scope.append(path)
        try:
            yield
        finally:
            self._scope.pop()

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object):
        """Append a node; return the name of its output, or their list if there are several."""
        path = "/" + "/".join([*self._scope, kind])
        number, self._count[path] = self._count[path], self._count[path] + 1
        path += f"_{number}" if number else ""
        names = [f"{path}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=path, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: object, dtype: str | None = None) -> str:
        """Append a Constant node, in the model's own dtype unless told otherwise."""
        array = np.asarray(value).astype(numpy_dtype(dtype or self.dtype))
        return self.op("Constant", value=tensor("", array))

    def ints(self, *values: int) -> str:
        """Append a Constant of shape (len(values),), int64: axes, sizes, shapes."""
        return self.constant(np.array(values, np.int64), "int64")

    def initializer(self, name: str, array: np.ndarray) -> str:
        """Add an initializer once; later calls with the same name share the first."""
        if name not in self.initializers:
            self.initializers[name] = tensor(name, array)
        return name

    def weight(self, name: str, shape: Sequence[int], mean: float = 0.0, std: float = 0.02) -> str:
        """Add a random initializer: normal of this mean and deviation."""
        if name in self.initializers:
            return name
        array = seeded(name, shape, mean, std, self.seed)
        return self.initializer(name, array.astype(numpy_dtype(self.dtype), copy=False))

    def input(
        self,
        name: str,
        shape: Sequence[Dim],
        dtype: str | None = None,
        below: int | None = None,
    ) -> str:
        """Declare a graph input; `below` bounds an integer input (it indexes that many rows)."""
        self.inputs.append(_value_info(name, shape, dtype or self.dtype))
        if below is not None:
            self.metadata[f"range:{name}"] = str(below)
        return name

    def symbol(self, name: str, size: int) -> str:
        """Declare a symbolic dimension and the size that `random_inputs` gives it."""
        self.metadata[f"dim:{name}"] = str(size)
        return name

    def output(self, value: str, name: str, shape: Sequence[Dim], dtype: str | None = None) -> None:
        """Make `value`, which a node of this graph computes, the graph output `name`."""
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, old in enumerate(names):
                    if old == value:
                        names[i] = name
        self.outputs.append(_value_info(name, shape, dtype or self.dtype))

    def cast(self, x: str, dtype: str) -> str:
        """Append a Cast."""
        return self.op("Cast", x, to=helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype)))

    def filled(self, shape: str, value: float, dtype: str | None = None) -> str:
        """Append a ConstantOfShape of this value."""
        array = np.array([value]).astype(numpy_dtype(dtype or self.dtype))
        return self.op("ConstantOfShape", shape, value=tensor("value", array))

    def reduce(self, kind: str, x: str, axes: Sequence[int], keepdims: bool = True) -> str:
        """Append a reduction, with its axes where this opset has them."""
        if kind == "ReduceSum" or self.opset > REDUCTIONS_WITH_AXES_ATTRIBUTE:
            return self.op(kind, x, self.ints(*axes), keepdims=int(keepdims))
        return self.op(kind, x, axes=list(axes), keepdims=int(keepdims))

    def split(self, x: str, sizes: Sequence[int], axis: int = -1) -> list[str]:
        """Append a Split into these sizes."""
        return self.op("Split", x, self.ints(*sizes), outputs=len(sizes), axis=axis)

    def size(self, x: str, axis: int) -> str:
        """Append the exporter's `x.size(axis)`: a 0-d int64."""
        return self.op("Gather", self.op("Shape", x), self.constant(axis, "int64"), axis=0)

    def shape(self, dims: Sequence[Dim], like: str, like_dims: Sequence[Dim]) -> str:
        """Append a shape vector: a Constant, or Shape/Gather/Unsqueeze/Concat if a dim is symbolic.

        Symbols are looked up in `like`, whose dimensions are `like_dims`.
        """
        if all(isinstance(dim, int) for dim in dims):
            return self.ints(*dims)
        parts = [
            self.op("Unsqueeze", self.size(like, list(like_dims).index(dim)), self.ints(0))
            if isinstance(dim, str)
            else self.ints(dim)
            for dim in dims
        ]
        return self.op("Concat", *parts, axis=0)

    def reshape(
        self, x: str, dims: Sequence[Dim], like: str = "", like_dims: Sequence[Dim] = ()
    ) -> str:
        """Append a Reshape to `dims`; symbols among them are read from `like`."""
        keep_zero = {"allowzero": 1} if 0 in dims else {}  # otherwise 0 means "as the input's"
        return self.op("Reshape", x, self.shape(dims, like, like_dims), **keep_zero)

    def model(self) -> onnx.ModelProto:
        """Return the finished model."""
        graph = helper.make_graph(
            self.nodes, self.name, self.inputs, self.outputs, list(self.initializers.values())
        )
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(
            graph,
            producer_name="zoo",
            opset_imports=opsets,
            ir_version=helper.find_min_ir_version_for(opsets),
        )
        helper.set_model_props(model, self.metadata)
        return model


def tensor(name: str, array: np.ndarray) -> onnx.TensorProto:
    """Return the array as raw bytes; unlike numpy_helper it makes one copy only."""
    return TensorProto(
        name=name,
        dims=array.shape,
        data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
        raw_data=array.tobytes(),
    )


def _value_info(name: str, shape: Sequence[Dim], dtype: str) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))
    return helper.make_tensor_value_info(name, kind, list(shape))
