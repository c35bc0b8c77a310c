"""Choose which convolutions go by minimal filtering, and of how many pixels a tile.

The transformed kernel is larger than the kernel, 16 or 36 numbers for each 9, and all of them
together may no longer fit the level of memory that the weights are read from.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping

from tvm import relax, te

from tir_schedules.analysis.kernel_facts import summarize
from tir_schedules.backend import backend
from tir_schedules.decision_source import chosen_form
from tir_schedules.device import Device
from tir_schedules.kernel_ir.expr import dtype_bytes

from ..policy import LayoutPolicy
from . import convolution, winograd
from .convolution import SPATIAL, Window
from .weights import Weights, is_product, key_of, shape_of
from .winograd import FOUR, TAPS, TWO, Filtering

logger = logging.getLogger("tvm_stitch.fusion")

FORMS = {"direct": None, "filtered by 2": TWO, "filtered by 4": FOUR}

# All that the form of a convolution depends on: the key of its weight, its image, its window.
Site = tuple[object, tuple[int, ...], Window]


def site_of(call: relax.Call, at: Window) -> Site:
    x, weight = call.args
    return key_of(weight), tuple(shape_of(x)), at


def choose_winograd(
    graphs: list[relax.Function], weights: Weights, device: Device, policy: LayoutPolicy
) -> dict[Site, Filtering]:
    """Return the convolutions predicted to be `winograd_worth` times as fast, each with its tile.

    Between two of its calls the model reads all of its weights: a direct one comes from the level
    of memory that holds them as they are, a transformed one from that which holds them transformed.
    What a log knows better (tir_schedules.decision_source) is asked for each of them.
    """
    given, device = device, device.deciding()
    calls = [call for func in graphs for call in _convolutions(func, weights)]
    plan_ns = functools.cache(functools.partial(_plan_ns, device))
    stored_ns = held_ns = _read_ns(weights.total_bytes, device)
    while True:
        choose = functools.partial(_choose, device, plan_ns, stored_ns, held_ns, policy)
        forms = {site_of(call, convolution.window(call)): choose(call) for call in calls}
        chosen = {site: by for site, by in forms.items() if by is not None}
        kernels = {(site[0], by) for site, by in chosen.items()}
        grown = sum(weights.bytes_of(key) * (by.terms**2 / TAPS**2 - 1) for key, by in kernels)
        grown_ns = _read_ns(weights.total_bytes + grown, device)
        if grown_ns <= held_ns:
            return _as_told(calls, forms, given, policy.few_channels)
        held_ns = grown_ns


def _as_told(
    calls: list[relax.Call], forms: Mapping[Site, Filtering | None], device: Device, few: int
) -> dict[Site, Filtering]:
    """Return the convolutions that are filtered, of `forms` by default, if nothing tells better."""
    told: dict[Site, Filtering] = {}
    for call in calls:
        at = convolution.window(call)
        site = site_of(call, at)
        refused = (refuse_winograd(call, by, device, few) if by else None for by in FORMS.values())
        able = [name for name, reason in zip(FORMS, refused, strict=True) if reason is None]
        able.sort(key=lambda name: FORMS[name] is not forms[site])
        image, kernel = map(shape_of, call.args)
        op = f"{call.op.name} {image} {kernel} {call.args[1].ty.dtype} {at}"
        if (by := FORMS[chosen_form(op, able, device)]) is not None:
            told[site] = by
    return told


def refuse_winograd(call: relax.Call, by: Filtering, device: Device, few: int) -> str | None:
    """Return why a convolution is not one that `by` computes, or None."""
    if call.op.name != "relax.nn.conv2d" or (at := convolution.window(call)) is None:
        return "not a channels-last 2-D convolution"
    x, weight = call.args
    channels, depth, *sizes = shape_of(weight)
    if sizes != [TAPS, TAPS]:
        return f"a kernel of {sizes}"
    if {*at.strides, *at.dilation} != {1} or int(call.attrs.groups) != 1:
        return "strides, dilation or groups"
    lanes = backend(device).weights.lanes(channels, str(weight.ty.dtype), device)
    if depth < few or lanes is None:
        return f"{depth} channels in, {channels} out fill no registers"
    made = winograd.out_sizes(tuple(shape_of(x)[1:3]), at)
    if any(n % by.size for n in made):
        return f"tiles of {by.size} pixels do not fill {made}"
    return None


def _convolutions(func: relax.Function, weights: Weights) -> list[relax.Call]:
    found: list[relax.Call] = []

    def visit(node: relax.Expr) -> None:
        if not isinstance(node, relax.Call) or not is_product(node) or node.op.name not in SPATIAL:
            return
        known = weights.packs(*node.args) and weights.is_moderate(node.args[1])
        if known and convolution.window(node) is not None:
            found.append(node)

    relax.analysis.post_order_visit(func, visit)
    return found


def _choose(
    device: Device,
    plan_ns: Callable,
    stored_ns: float,
    held_ns: float,
    policy: LayoutPolicy,
    call: relax.Call,
) -> Filtering | None:
    """Return the fastest form of a convolution, None if direct; `*_ns` is of a weight's byte."""
    x, weight = call.args
    image, kernel, at = tuple(shape_of(x)), tuple(shape_of(weight)), convolution.window(call)
    dtype = str(weight.ty.dtype)
    bytes_ = math.prod(kernel) * dtype_bytes(dtype)
    times: dict[Filtering, float] = {}
    for by in (TWO, FOUR):
        if (reason := refuse_winograd(call, by, device, policy.few_channels)) is not None:
            logger.debug("minimal filtering by %d: %s", by.size, reason)
            continue
        read = held_ns * bytes_ * by.terms**2 / TAPS**2
        times[by] = plan_ns(by, image, kernel, dtype, at) + read
    best = min(times, key=times.__getitem__, default=None)
    if best is None or times[best] == math.inf:
        return None
    direct = plan_ns(None, image, kernel, dtype, at) + stored_ns * bytes_
    return best if direct >= policy.winograd_worth * times[best] else None


def _read_ns(total: float, device: Device) -> float:
    """Return what a byte of weights takes that together are `total` bytes."""
    return backend(device).costs.read_ns(math.ceil(total), device) / device.threads


def _plan_ns(
    device: Device,
    by: Filtering | None,
    image: tuple[int, ...],
    kernel: tuple[int, ...],
    dtype: str,
    at: Window,
) -> float:
    """Return the predicted time of a convolution, infinite if it is no single kernel."""
    outs, depth, *sizes = kernel
    lanes = backend(device).weights.lanes(outs, dtype, device)
    shapes = [image, (outs // lanes, *sizes, depth, lanes)]
    made = functools.partial(convolution.convolve, at=at)
    if by is not None:
        shapes.insert(1, (by.terms, by.terms, outs // lanes, depth, lanes))
        made = functools.partial(winograd.convolve_guarded, at=at, by=by)
    tensors = [te.placeholder(each, dtype) for each in shapes]
    kernel = summarize(te.create_prim_func([*tensors, made(*tensors)]))
    judged = backend(device).judge(kernel, device)
    if judged.refusal is not None or backend(device).undone(judged.plan, device).untiled:
        return math.inf
    return judged.ns
