"""Tiles that share out a weight's panels: what else is in the phase keeps to them too."""

from __future__ import annotations

import pytest
from tvm import te, tirx

from support.kernels import stitch_case
from tir_schedules.cpu.decide.tiles.tiling import choose_tiling
from tir_schedules.cpu.facts.reading import reading_of
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.default_plan import plan_prim_func
from tir_schedules.kernel_ir.parse import read

IMAGES, PIXELS, DEPTH, PANELS, LANES = 3, 56, 48, 4, 16


def image_and_product() -> tuple[list[te.Tensor], te.Tensor, te.Tensor]:
    """A product of an image less its sum: the pixels do not number tiles.

    Returns what is given, the image that is made, and the product.
    """
    x = te.placeholder((IMAGES, PIXELS, DEPTH), "float32", "x")
    p, k = te.reduce_axis((0, PIXELS), "p"), te.reduce_axis((0, DEPTH), "k")
    total = te.compute((IMAGES,), lambda b: te.sum(x[b, p, k], axis=[p, k]), "total")
    made = te.compute(x.shape, lambda b, p, k: te.exp(x[b, p, k] - total[b]), "made")
    weight = te.placeholder((PANELS, DEPTH, LANES), "float32", "v")
    return [x, weight], made, product(made, weight, "one")


def product(made: te.Tensor, weight: te.Tensor, name: str) -> te.Tensor:
    k = te.reduce_axis((0, DEPTH), "k")
    return te.compute(
        (made.shape[0], PIXELS, PANELS, LANES),
        lambda b, p, j, lane: te.sum(made[b, p, k] * weight[j, k, lane], axis=k),
        name,
    )


def added(one: te.Tensor, other: te.Tensor) -> te.Tensor:
    return te.compute(one.shape, lambda *at: one[at] + other[at], "added")


def turned(one: te.Tensor, other: te.Tensor) -> te.Tensor:
    both, last = added(one, other), PANELS - 1
    return te.compute(
        one.shape, lambda b, p, j, n: both[b, p, j, n] * other[b, p, last - j, n], "turned"
    )


def summed(one: te.Tensor, other: te.Tensor) -> te.Tensor:
    j = te.reduce_axis((0, PANELS), "j")
    shape = (*other.shape[:2], LANES)
    both = added(one, other)
    return te.compute(shape, lambda b, p, n: te.sum(both[b, p, j, n], axis=j), "summed")


def two_products(read_by) -> tirx.PrimFunc:
    given, made, one = image_and_product()
    weight = te.placeholder((PANELS, DEPTH, LANES), "float32", "w")
    return te.create_prim_func([*given, weight, read_by(one, product(made, weight, "other"))])


def tiling(func: tirx.PrimFunc, device, nodes: int):
    space = reading_of(read(func)).space
    return space, choose_tiling(list(space.nodes[:nodes]), space, device)


def test_one_product_alone_shares_its_panels_out():
    given, _, one = image_and_product()
    _, alone = tiling(te.create_prim_func([*given, one]), stitch_case.device(2), 3)
    assert [a.extent for a in alone.tile] == [PANELS]
    assert alone.tiles() == 2


@pytest.mark.parametrize("read_by", [turned, summed])
def test_what_reads_a_product_beside_has_all_its_panels(read_by):
    func = two_products(read_by)
    space, together = tiling(func, stitch_case.device(2), 6)
    assert space.nodes[-1].stage.out in space.kernel.outputs
    assert not any(set(together.tile) & e.unaligned for e in space.edges)
    assert not any(set(together.tile) & set(n.reduced) for n in space.nodes)


@pytest.mark.parametrize("read_by", [turned, summed])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_what_another_phase_reads_is_not_made_for_each_part_of_the_panels(threads, read_by):
    plan = plan_prim_func(two_products(read_by), stitch_case.device(threads))
    assert isinstance(plan, Plan), plan
