"""Numbers of every type are sorted, whatever TVM's runtime has code for."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

import tvm_stitch
from relay_passes.transform import WidenSorts
from support.frontend.case import INT64, model
from support.models import relax_models as rm

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
          "float32", "float64"]  # fmt: skip


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return different numbers, the least and the largest of an integer type among them."""
    rng, count = np.random.default_rng(0), int(np.prod(shape))
    if dtype.startswith(("float", "bfloat")):
        return rng.permutation(count).astype(dtype).reshape(shape) - np.asarray(5, dtype)
    ends = np.iinfo(dtype)
    between = rng.choice(100, count - 2, replace=False).astype(dtype)
    return rng.permutation(np.array([*between, ends.min, ends.max], dtype)).reshape(shape)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_and_the_least_of_every_type_are_found(dtype, largest):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=0, largest=largest)
    ends = {"v": (kind, None), "i": (INT64, None)}
    proto = model([node], {"x": (kind, (9, 3))}, ends, {"k": np.array([4])})
    x = numbers(dtype, (9, 3))
    got = tvm_stitch.compile(proto, threads=1).run({"x": x})
    order = np.argsort(x, axis=0)[::-1][:4] if largest else np.argsort(x, axis=0)[:4]
    np.testing.assert_array_equal(got["i"], order)
    np.testing.assert_array_equal(got["v"], np.take_along_axis(x, order, 0))


@pytest.mark.parametrize("dtype", ["uint16", "uint64", "bfloat16"])
def test_sorts_of_relax_are_widened_once(dtype):
    x = numbers(dtype, (4, 6)) if dtype != "bfloat16" else numbers("float32", (4, 6))
    x = x.astype(ml_dtypes.bfloat16) if dtype == "bfloat16" else x

    def emit(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        ordered = builder.emit(relax.op.sort(x, axis=-1, descending=True))
        places = builder.emit(relax.op.argsort(x, axis=1, dtype="int64"))
        return relax.Tuple([ordered, places])

    mod = rm.module(emit, x)
    widened = WidenSorts()(mod)
    tvm.ir.assert_structural_equal(WidenSorts()(widened), widened)
    ordered, places = (np.from_dlpack(t) if dtype != "bfloat16" else t for t in
                       tvm_stitch.compile(mod, threads=1)(tvm.runtime.tensor(x)))  # fmt: skip
    if dtype == "bfloat16":
        ordered, places = ordered.numpy(), places.numpy()
    wide = x.astype("float64") if dtype == "bfloat16" else x
    np.testing.assert_array_equal(ordered.astype(wide.dtype), np.sort(wide, axis=1)[:, ::-1])
    np.testing.assert_array_equal(places, np.argsort(wide, axis=1))
