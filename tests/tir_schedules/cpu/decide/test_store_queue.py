"""Small padded images are made several at once: their lines have left the store queue when read."""

from __future__ import annotations

import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.convolutions import square
from support.kernels.images import Image, assert_right, emitted
from tir_schedules.cpu.plan.kernel_plan import Phase, Plan
from tir_schedules.default_plan import plan_prim_func


def small(channels: int, size: int = 7, **options: object) -> Image:
    return Image(channels, tuple(square(size, 3, pads=(1, 1))), **options)


def batch(images: int, channels: int) -> tirx.PrimFunc:
    """Return a 3x3 window over images of 4 x 4 of some channels each."""
    image = te.placeholder((images, channels, 4, 4), "float32", "image")

    def padded(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var) -> tirx.Expr:
        inside = tirx.all(y >= 1, y < 5, x >= 1, x < 5)
        return tirx.if_then_else(inside, image[n, c, y - 1, x - 1], tirx.FloatImm("float32", 0.0))

    pad = te.compute((images, channels, 6, 6), padded, "pad")
    p, q = te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    out = te.compute(
        image.shape, lambda n, c, y, x: te.sum(te.abs(pad[n, c, y + p, x + q]), [p, q]), "out"
    )
    return te.create_prim_func([image, out])


def the_phase(plan: Plan | str) -> Phase:
    assert isinstance(plan, Plan), plan
    (phase,) = plan.phases
    return phase


@pytest.mark.parametrize(
    ("image", "together"),
    [
        pytest.param(small(960), 8, id="a divisor"),
        pytest.param(small(1021), 7, id="a prime"),
        pytest.param(small(960, dtype="float64"), 4, id="of doubles half as many"),
        pytest.param(small(192), 3, id="tiles enough for threads"),
        pytest.param(small(960, size=28), None, id="an image that is longer than the queue"),
    ],
)
def test_images_are_made_so_many_at_once(image, together):
    phase = the_phase(emitted(image)[0])
    assert (phase.chunks or None) == (together and {phase.tile[-1]: together})


@pytest.mark.parametrize("channels", [960, 1021])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_images_made_at_once_are_right(channels, kind):
    assert_right(small(channels, kind=kind))


@pytest.mark.parametrize(
    ("images", "channels", "tile", "together"),
    [(256, 2, 1, 4), (1024, 1, 1, 16), (16, 64, 2, 16)],
)
def test_images_of_all_channels_may_be_too_few(images, channels, tile, together):
    phase = the_phase(plan_prim_func(batch(images, channels), sc.device(2)))
    assert (len(phase.tile), phase.chunks[phase.tile[-1]]) == (tile, together)


def test_channels_in_lanes_are_cut_as_ever():
    """Taps are other pixels, whole lines apart."""
    phase = the_phase(emitted(small(960, last=True))[0])
    assert set(phase.chunks.values()) == {64}


def test_rows_that_are_read_as_they_were_stored_wait_for_nothing():
    """A load of the very bytes of one queued store is served from the queue."""
    x = te.placeholder((4096, 16), "float32", "x")
    k = te.reduce_axis((0, 16), "k")
    y = te.compute(x.shape, lambda i, j: te.exp(x[i, j]), "y")
    total = te.compute((4096,), lambda i: te.sum(y[i, k], k), "total")
    out = te.compute(x.shape, lambda i, j: y[i, j] / total[i], "out")
    phase = the_phase(plan_prim_func(te.create_prim_func([x, out]), sc.device(2)))
    assert not phase.chunks
