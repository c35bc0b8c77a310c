"""A convolution of single pixels among no others is a product as its image lies.

Channels last would turn the image before and after it. Left where they are, pixels run along the
lanes and channels are the rows: y[n] = w @ x[n], with both images as matrices of channels x pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import tvm
from tvm import ir, relax
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.analysis.limits import LIMITS
from tir_schedules.backend import backend, current_device
from tir_schedules.device import Device
from tir_schedules.fuel import is_out, spend
from tir_schedules.kernel_ir.expr import dtype_bytes

from ..graph.graph_functions import graph_functions
from ..policy import POLICY, LayoutPolicy
from .channels_last import CARRIED
from .convolution import (
    CHANNELS_FIRST,
    KERNEL,
    SPATIAL,
    TRANSPOSED,
    is_depthwise,
    keeps_dtype,
)
from .weights import pack_alike, shape_of


@tvm.transform.module_pass(opt_level=0, name="PointwiseProducts")
class PointwiseProducts:
    """Turn 1x1 convolutions into products where no other convolution shares their layout.

    rewrite: conv2d(x[N, C, H, W], w[O, C, 1, 1], strides=[s, s])
          -> reshape(matmul(reshape(w), reshape(strided_slice(x, s))), [N, O, H / s, W / s])

    Groups are a batch of products. Images whose pixels leave so many lanes of the last strip empty
    that turning them costs less stay convolutions, of the pixels that count:

             conv2d(strided_slice(x, s), w, strides=[1, 1])

    Runs before ChannelsLast.
    """

    def __init__(self, device: Device | None = None, policy: LayoutPolicy = POLICY.layout) -> None:
        self._device, self._policy = device, policy

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        device = self._device or current_device()
        if device is None or backend(device).weights is None:
            return mod
        for gvar, func in graph_functions(mod):
            rewriter = _Rewriter(mod, device.deciding(), _alone(func), self._policy)
            rewriter.builder_.update_func(gvar, rewriter.visit_expr(func))
            mod = rewriter.builder_.get()
        return mod


def _alone(func: relax.Function) -> set[relax.Var]:
    """Return the results of convolutions that ops which carry a layout join to no other one."""
    parents: dict[relax.Var, relax.Var] = {}

    def root(var: relax.Var) -> relax.Var:
        while (parent := parents.setdefault(var, var)) != var:
            var = parent
        return var

    convolutions: list[relax.Var] = []
    for var, call in _calls(func):
        if call.op.name in SPATIAL or call.op.name in TRANSPOSED:
            convolutions.append(var)
            carried = call.args[:1]
        elif call.op.name in CARRIED:
            carried = [a for a in call.args if getattr(a.ty, "ndim", None) == var.ty.ndim]
        else:
            continue
        for argument in carried:
            if isinstance(argument, relax.Var):
                parents[root(argument)] = root(var)
    found: dict[relax.Var, list[relax.Var]] = {}
    for var in convolutions:
        found.setdefault(root(var), []).append(var)
    return {members[0] for members in found.values() if len(members) == 1}


def _calls(func: relax.Function) -> Iterator[tuple[relax.Var, relax.Call]]:
    for block in func.body.blocks:
        for binding in block.bindings:
            value = getattr(binding, "value", None)
            if isinstance(value, relax.Call) and isinstance(value.op, ir.Op):
                yield binding.var, value


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def __init__(
        self, mod: IRModule, device: Device, alone: set[relax.Var], policy: LayoutPolicy
    ) -> None:
        super().__init__(mod)
        self._device, self._alone, self._policy = device, alone, policy

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if not is_out() and binding.var in self._alone and self._is_pointwise(binding.value):
            made = self._rewritten(binding.value)
            if not made.same_as(binding.value):
                spend("PointwiseProducts", binding.var.name)
            binding = relax.VarBinding(binding.var, made)
        super().visit_var_binding_(binding)

    def _rewritten(self, call: relax.Call) -> relax.Call:
        if self._idle_ns(call) <= self._turning_ns(call):
            return self._product(call)
        return self._convolution(call) if _cuts(call) else call

    def _is_pointwise(self, call: relax.Call) -> bool:
        if call.op.name not in SPATIAL:
            return False
        attrs, rank = call.attrs, SPATIAL[call.op.name]
        first = CHANNELS_FIRST[rank]
        if attrs.data_layout != first or attrs.kernel_layout != KERNEL[rank]:
            return False
        if attrs.out_layout not in ("", first) or not keeps_dtype(call):
            return False
        if not pack_alike(*call.args):
            return False
        taps = [int(n) for n in call.args[1].ty.shape.values[2:]]
        if set(taps) != {1} or any(map(int, attrs.padding)) or is_depthwise(call):
            return False
        return math.prod(shape_of(call)[2:]) >= LIMITS.least_lanes

    def _idle_ns(self, call: relax.Call) -> float:
        """Return what the lanes take that a line of pixels leaves empty."""
        batch, outs, *sizes = shape_of(call)
        dtype, threads = str(call.ty.dtype), self._device.threads
        empty = -math.prod(sizes) % backend(self._device).weights.widest(
            self._policy.strip_pixels, dtype, self._device
        )
        registers = empty * dtype_bytes(dtype) / self._device.vector_bytes
        steps = batch * outs * shape_of(call.args[1])[1] * registers
        return steps * 2 * self._device.profile.op_ns["light"] * self._policy.fused / threads

    def _turning_ns(self, call: relax.Call) -> float:
        """Return what it takes to turn the image before and after."""
        image, made = shape_of(call.args[0]), shape_of(call)
        read = [*image[:2], *made[2:]] if _cuts(call) else image
        elements = math.prod(read) + math.prod(made)
        moved = elements * dtype_bytes(str(call.ty.dtype))
        each = backend(self._device).costs.read_ns(moved, self._device)
        fixed = self._device.profile.thresholds.turning_ns
        return fixed + self._policy.passes * moved * each / self._device.threads

    def _product(self, call: relax.Call) -> relax.Expr:
        x, weight = self._cut(call), self.visit_expr(call.args[1])
        shape = [int(n) for n in call.ty.shape.values]
        outer, inner = (int(n) for n in weight.ty.shape.values[:2])
        pixels, groups = math.prod(shape[2:]), int(call.attrs.groups)
        split = (groups,) if groups > 1 else ()
        matrices = (*split, outer // groups, inner)
        matrix = self.builder_.emit(relax.op.reshape(weight, matrices))
        image = self.builder_.emit(relax.op.reshape(x, (shape[0], *split, inner, pixels)))
        made = self.builder_.emit(relax.op.matmul(matrix, image))
        return relax.op.reshape(made, shape)

    def _convolution(self, call: relax.Call) -> relax.Expr:
        """Return the convolution of the pixels that count."""
        x, weight, attrs = self._cut(call), self.visit_expr(call.args[1]), call.attrs
        convolve = getattr(relax.op.nn, call.op.name.removeprefix("relax.nn."))
        return convolve(
            x,
            weight,
            groups=int(attrs.groups),
            data_layout=attrs.data_layout,
            kernel_layout=attrs.kernel_layout,
            out_layout=attrs.out_layout,
            out_dtype=attrs.out_dtype,
        )

    def _cut(self, call: relax.Call) -> relax.Expr:
        """Return the image without the pixels that steps leave out."""
        x, steps = self.visit_expr(call.args[0]), [int(n) for n in call.attrs.strides]
        if not _is_stepped(call):
            return x
        axes, ends = list(range(2, 2 + len(steps))), shape_of(x)[2:]
        return self.builder_.emit(relax.op.strided_slice(x, axes, [0] * len(steps), ends, steps))


def _is_stepped(call: relax.Call) -> bool:
    return any(int(step) > 1 for step in call.attrs.strides)


def _cuts(call: relax.Call) -> bool:
    """Return whether only what counts is turned: 7 pixels of a line of 14 are picked 2 % slower."""
    return _is_stepped(call) and shape_of(call)[-1] >= LIMITS.least_lanes
