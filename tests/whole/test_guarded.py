"""No kernel reads or writes outside its buffers, and one that does is named."""

from __future__ import annotations

import numpy as np
import pytest
import zoo
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import tvm_stitch
from support.blocks.reducer import whole
from support.kernels.guarded import out_of_bounds
from support.models.runtime import built, convolution


def planted(by: int):
    """Return y = x, but for what lies `by` elements beside each: outside of x at one end."""

    @I.ir_module
    class Beside:
        @T.prim_func(private=True, s_tir=True)
        def beside(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
            T.func_attr({"op_pattern": 8, "tirx.is_scheduled": True})
            for i in range(64):
                with T.sblock("y"):
                    vi = T.axis.remap("S", [i])
                    y[vi] = x[vi + by]

        @R.function
        def main(x: R.Tensor((64,), "float32")):
            cls = Beside
            with R.dataflow():
                y = R.call_tir(cls.beside, (x,), out_ty=R.Tensor((64,), "float32"))
                R.output(y)
            return y

    return built(Beside, (64,), 1)


@pytest.mark.parametrize(("by", "where"), [(1, "end"), (-1, "begin")])
def test_a_read_outside_a_buffer_is_found(by, where):
    told = f"beside, whose buffers {where} at a guard page: touches memory outside them"
    assert out_of_bounds(planted(by), {"x": np.zeros(64, np.float32)}) == told


def test_a_kernel_that_stays_inside_is_not():
    assert out_of_bounds(planted(0), {"x": np.zeros(64, np.float32)}) is None


@pytest.mark.parametrize("name", ["mha_1"])
def test_a_small_model_stays_in_its_buffers(name):
    proto = zoo.model(name, **zoo.SMALL[name])
    model = tvm_stitch.compile(proto, threads=2)
    assert out_of_bounds(model, zoo.random_inputs(proto, seed=1)) is None


def test_weights_are_prepared_in_their_buffers():
    proto = convolution(64)
    model = tvm_stitch.compile(proto, threads=1)
    assert model._library.stored.prepared
    assert out_of_bounds(model, zoo.random_inputs(proto)) is None


@pytest.mark.parametrize("seed", range(2))
def test_a_network_of_blocks_stays_in_its_buffers(seed):
    case = whole(seed)
    graph = case.graph()
    model = case.way.compiled(graph, "stitch", case.way.threads[-1])
    assert out_of_bounds(model, graph.feeds()) is None
