"""Choose which convolutions go by minimal filtering, and of how many pixels a tile.

The transformed kernel is larger than the kernel: 16 or 36 numbers for each 9. So it must pay, and
all of them together may take a share of the weights' memory.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from tvm import relax, te

from tir_schedules.analysis.expr import dtype_bytes
from tir_schedules.cpu.accept import refuse_plan
from tir_schedules.cpu.contraction import panel_lanes
from tir_schedules.cpu.inspect import untiled_products
from tir_schedules.cpu.latency import estimate
from tir_schedules.cpu.levels import level_of, read_ns_per_byte
from tir_schedules.cpu.template import plan_prim_func
from tir_schedules.device import Device

from . import convolution, winograd
from .convolution import FEW_CHANNELS, Window
from .weights import Weights, is_product, key_of, shape_of
from .winograd import FOUR, TAPS, TWO, Filtering

# Of all weights' bytes. ResNet-50's convolutions grow by 15.5 % of them, and a file may by 20 %.
GROWTH_SHARE = 0.16
# How much faster it must be predicted to be: up to 1.5 times what is gained. ResNet-50's three
# sizes are predicted to gain 3.2, 2.5 and 1.7; alone they gained 2.6, 2.2 and 1.5, the last 1.14
# inside the model (2 threads of a Xeon with AVX-512).
_WORTH = 1.6
_THREADS = 2  # never those there are: results may not depend on them

logger = logging.getLogger("tvm_stitch.fusion")


@dataclass(frozen=True)
class Form:
    """A way to compute all convolutions by one weight: `gain_ns` and what the weight grows by."""

    by: Filtering
    gain_ns: float
    growth_bytes: int


def choose_winograd(
    graphs: list[relax.Function], weights: Weights, device: Device
) -> dict[object, Form]:
    """Return the form of each weight that has one, those that gain most a byte first."""
    forms = _forms(graphs, weights, dataclasses.replace(device, threads=_THREADS))
    budget = int(GROWTH_SHARE * weights.total_bytes)
    chosen: dict[object, Form] = {}
    for key, ways in sorted(forms.items(), key=lambda item: -_gain_per_byte(item[1][0])):
        form = next((way for way in ways if way.growth_bytes <= budget), None)
        if form is not None:
            chosen[key] = form
            budget -= form.growth_bytes
    return chosen


def refuse_winograd(call: relax.Call, by: Filtering, device: Device) -> str | None:
    """Return why a convolution is not one that `by` computes, or None."""
    if call.op.name != "relax.nn.conv2d" or (at := convolution.window(call)) is None:
        return "not a channels-last 2-D convolution"
    x, weight = call.args
    channels, depth, *sizes = shape_of(weight)
    if sizes != [TAPS, TAPS]:
        return f"a kernel of {sizes}"
    if {*at.strides, *at.dilation} != {1} or int(call.attrs.groups) != 1:
        return "strides, dilation or groups"
    if depth < FEW_CHANNELS or panel_lanes(channels, str(weight.ty.dtype), device) is None:
        return f"{depth} channels in, {channels} out fill no registers"
    made = winograd.out_sizes(tuple(shape_of(x)[1:3]), at)
    if any(n % by.size for n in made):
        return f"tiles of {by.size} pixels do not fill {made}"
    return None


def _forms(
    graphs: list[relax.Function], weights: Weights, device: Device
) -> dict[object, list[Form]]:
    """Return the forms of weights that all their readers can have, the fastest first."""
    calls: dict[object, list[relax.Call]] = {}

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.Call) and is_product(node):
            calls.setdefault(key_of(node.args[1]), []).append(node)

    for func in graphs:
        relax.analysis.post_order_visit(func, visit)
    time = functools.cache(functools.partial(_time_ns, weights.total_bytes, device))
    forms = {}
    for key, readers in calls.items():
        if not all(weights.packs(*call.args) for call in readers):
            continue
        ways = [w for by in (TWO, FOUR) if (w := _form(readers, by, device, time)) is not None]
        if ways:
            forms[key] = sorted(ways, key=lambda way: -way.gain_ns)
    return forms


def _form(calls: list[relax.Call], by: Filtering, device: Device, time: Callable) -> Form | None:
    for call in calls:
        if (reason := refuse_winograd(call, by, device)) is not None:
            logger.debug("minimal filtering by %d: %s", by.size, reason)
            return None
    gain = 0.0
    for call in calls:
        x, weight = call.args
        at, dtype = convolution.window(call), str(weight.ty.dtype)
        image, kernel = tuple(shape_of(x)), tuple(shape_of(weight))
        direct = time(None, image, kernel, dtype, at)
        filtered = time(by, image, kernel, dtype, at)
        if direct < _WORTH * filtered:
            return None
        gain += direct - filtered
    growth = math.prod(kernel[:2]) * (by.terms**2 - TAPS**2) * dtype_bytes(dtype)
    return Form(by, gain, growth)


def _gain_per_byte(form: Form) -> float:
    return form.gain_ns / form.growth_bytes


def _time_ns(
    total_bytes: int,
    device: Device,
    by: Filtering | None,
    image: tuple[int, ...],
    kernel: tuple[int, ...],
    dtype: str,
    at: Window,
) -> float:
    """Return the predicted time of a convolution, infinite if it is no single kernel.

    Between two of its calls the model reads all of its weights, `total_bytes`.
    """
    outs, depth, *sizes = kernel
    lanes = panel_lanes(outs, dtype, device)
    if by is None:
        shape = (outs // lanes, *sizes, depth, lanes)
        made = functools.partial(convolution.convolve, at=at)
    else:
        shape = (by.terms, by.terms, outs // lanes, depth, lanes)
        made = functools.partial(winograd.convolve_winograd, at=at, by=by)
    tensors = [te.placeholder(each, dtype) for each in (image, shape)]
    plan = plan_prim_func(te.create_prim_func([*tensors, made(*tensors)]), device)
    if isinstance(plan, str) or refuse_plan(plan, device) is not None or untiled_products(plan):
        return math.inf
    level = level_of(total_bytes, device)
    each = read_ns_per_byte(level, device.threads, device.profile) / device.threads
    return estimate(plan, device).total + each * math.prod(shape) * dtype_bytes(dtype)
