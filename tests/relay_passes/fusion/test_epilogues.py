"""What a product takes into its registers: a change of layout must not cost it the register tile.

Heads of 80 columns are no whole panels of 32: a product that stored them in their own layout ran
without a register tile, at a fiftieth of its speed.
"""

from __future__ import annotations

import onnx
import pytest
from zoo.graph import Graph as Onnx

import tvm_stitch
from support.kernels import stitch_case as sc
from support.kernels.checked import checked
from support.kernels.planned import kernels
from tir_schedules.analysis.kernel_facts import COMPUTE
from tir_schedules.cpu.accept.acceptance import accepted_plan
from tir_schedules.cpu.accept.inspect import untiled_products


def projection(rows: int, depth: int, heads: tuple[int, ...], turned: bool) -> onnx.ModelProto:
    columns = 1
    for extent in heads:
        columns *= extent
    g = Onnx("projection")
    x = g.input("x", (1, rows, depth))
    y = g.op("MatMul", x, g.weight("w", (depth, columns)))
    y = g.op("Add", y, g.weight("b", (columns,)))
    y = g.op("Reshape", y, g.constant([1, rows, *heads], "int64"))
    shape = (1, rows, *heads)
    if turned:
        y = g.op("Transpose", y, perm=[0, 2, 1, *range(3, len(shape))])
        shape = (1, heads[0], rows, *heads[1:])
    g.output(y, "y", shape)
    return g.model()


@pytest.mark.long(every=3)
@pytest.mark.parametrize("turned", [False, True], ids=["reshaped", "turned"])
@pytest.mark.parametrize(
    "heads",
    [
        (4, 80),
        (4, 72),
        (8, 48),
        (8, 40),
        (4, 24),
        (3, 20),
        (5, 7),
        (4, 3, 80),
        (3, 4, 48),
        (2, 3, 5),
    ],
    ids=lambda heads: "x".join(map(str, heads)),
)
def test_heads_of_any_width_leave_the_product_its_register_tile(heads, turned):
    model = projection(40, 64, heads, turned)
    assert [g.kernel for g in tvm_stitch.explain(model, threads=2).groups if g.fallback] == []
    checked(model)


def test_what_fits_the_panels_is_stored_from_the_registers():
    for heads in ((12, 64), (12, 3, 64), (20, 16), (40, 8)):
        assert len(kernels(projection(40, 64, heads, turned=True))) == 1


@pytest.mark.parametrize("upscale", [2, 3])
def test_pixels_that_channels_become_leave_the_convolution_its_register_tile(upscale):
    g = Onnx("upscaled")
    x = g.input("x", (1, 16, 24, 24))
    y = g.op("Conv", x, g.weight("w", (16 * upscale**2, 16, 3, 3)), pads=[1, 1, 1, 1])
    y = g.op("DepthToSpace", y, blocksize=upscale, mode="CRD")
    g.output(g.op("Relu", y), "y", (1, 16, 24 * upscale, 24 * upscale))
    for group in kernels(g.model()):
        if any(n.op_class == COMPUTE for n in group.nodes):
            _, plan = accepted_plan(group.kernel(), sc.device(2))
            assert untiled_products(plan) == []
    checked(g.model())
