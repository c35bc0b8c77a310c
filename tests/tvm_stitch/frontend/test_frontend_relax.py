"""Relax modules through import_model."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import tvm_stitch
from support.frontend.case import run_stock
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import import_model


@I.ir_module
class Dynamic:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")) -> R.Tensor(
        ("n", 4), "float32"
    ):
        n = T.int64()
        with R.dataflow():
            gv: R.Tensor((n, 4), "float32") = R.add(x, y)
            R.output(gv)
        return gv


def with_constant():
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            constant = relax.const(np.arange(6, dtype="f4").reshape(2, 3))
            total = builder.emit(relax.op.add(x, constant))
            out = builder.emit_output(relax.op.multiply(total, relax.const(2.0, "float32")))
        builder.emit_func_output(out)
    return builder.get()


def test_large_constants_become_weights_and_the_module_stays():
    mod = with_constant()
    before = mod.script()
    imported = import_model(mod)
    assert mod.script() == before
    assert [w.shape for w in imported.weights] == [(2, 3)]
    assert int(imported.mod["main"].attrs["num_input"]) == 1
    (got,) = run_stock(imported, {"x": np.ones((2, 3), "f4")})
    np.testing.assert_array_equal(got, 2 * (1 + np.arange(6, dtype="f4").reshape(2, 3)))


def test_symbolic_extents_are_bound():
    imported = import_model(Dynamic, {"x": (3, 4)})
    assert [spec.shape for spec in imported.inputs] == [(3, 4), (3, 4)]
    assert imported.outputs[0].name == "output_0"


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        pytest.param(None, r"'n' \(axis 0 of 'x'\).*--shape x=1,4", id="unbound"),
        pytest.param({"z": (1,)}, "no such input", id="name"),
        pytest.param({"x": (1, 2, 3)}, "3 axes, not 2", id="rank"),
        pytest.param({"x": (3, 4), "y": (5, 4)}, "5 contradicts n", id="contradiction"),
        pytest.param({"x": ("n", 4)}, "a name is bound", id="symbol"),
    ],
)
def test_refuses_shapes_that_do_not_fit(shapes, words):
    with pytest.raises(StitchError, match=words):
        import_model(Dynamic, shapes)


def test_refuses_a_module_without_main():
    with pytest.raises(StitchError, match="no function main"):
        import_model(tvm.IRModule({}))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_what_has_no_elements_is_written_and_read(dtype):
    """TVM writes constants of no bytes, and then does not read them."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 5), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            nothing = builder.emit(relax.op.zeros((2, 0), dtype))
            joined = builder.emit_output(relax.op.concat([nothing, x], axis=1))
            other = builder.emit_output(relax.op.ones((0, 3), dtype))
        builder.emit_func_output(relax.Tuple([joined, other]))
    given = np.arange(10).reshape(2, 5).astype(dtype)
    got, empty = tvm_stitch.compile(builder.get())(given)
    np.testing.assert_array_equal(got.numpy(), given)
    assert tuple(empty.shape) == (0, 3)
