"""Products and convolutions that take several forms take the one that is told, and are right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from zoo.graph import Graph

import tvm_stitch
from relay_passes.rewrites.choose_winograd import FORMS
from relay_passes.rewrites.pack_weights import PRODUCT_FORMS
from support.kernels.checked import checked
from tir_schedules.decision_source import DecisionSource, using
from tir_schedules.device import CpuDevice


class Told(DecisionSource):
    """Says one form of all that may take it, and keeps what it was asked."""

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def form(self, op: str, forms: Sequence[str], device: CpuDevice) -> str:
        self.asked.append((op, tuple(forms)))
        return self._wanted if self._wanted in forms else forms[0]


def convolution(size: int = 16, channels: int = 64, taps: int = 3):
    g = Graph("convolution")
    x = g.input("x", (1, channels, size, size))
    weight = g.weight("w", (channels, channels, taps, taps), std=0.05)
    y = g.op("Conv", x, weight, pads=[taps // 2] * 4)
    g.output(g.op("Relu", y), "y", (1, channels, size, size))
    return g.model()


def products():
    """A product with a weight and one of activations, whose lines do not collide."""
    g = Graph("products")
    x, z = g.input("x", (33, 64)), g.input("z", (96, 40))
    g.output(g.op("MatMul", g.op("MatMul", x, g.weight("w", (64, 96))), z), "y", (33, 40))
    return g.model()


@pytest.mark.long(every=2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [16, 56])
def test_a_convolution_takes_the_form_that_is_told(form, size):
    told = Told(form)
    with using(told):
        kernels = checked(convolution(size))
    assert any("winograd" in name for name in kernels) == (FORMS[form] is not None)
    assert told.asked and all({*forms} == {*FORMS} for _, forms in told.asked)


@pytest.mark.parametrize(("size", "channels", "taps"), [(15, 64, 3), (16, 4, 3), (16, 64, 5)])
def test_a_form_that_a_convolution_may_not_take_is_not_offered(size, channels, taps):
    told = Told("filtered by 4")
    with using(told):
        kernels = checked(convolution(size, channels, taps))
    assert not any("winograd" in name for name in kernels)
    assert all("filtered by 4" not in forms for _, forms in told.asked)


@pytest.mark.parametrize("form", PRODUCT_FORMS)
def test_a_product_takes_the_form_that_is_told(form):
    told = Told(form)
    with using(told):
        kernels = checked(products())
    assert any("packed_matmul" in name for name in kernels) == (form == "panels")
    weight, made = sorted(told.asked, key=lambda asked: "weight" not in asked[0])
    assert "weight" in weight[0] and weight[1] == PRODUCT_FORMS
    assert "[33, 96] [96, 40] float32" in made[0] and made[1] == PRODUCT_FORMS[::-1]


def test_a_form_that_is_none_is_an_error():
    class Wrong(DecisionSource):
        def form(self, op: str, forms: Sequence[str], device: CpuDevice) -> str:
            return "upside down"

    with using(Wrong()), pytest.raises(ValueError, match="takes one of the forms"):
        tvm_stitch.compile(products(), threads=1)
