"""Carry images channels last from one convolution to the next.

TVM's ConvertLayout does as much for fewer ops and aborts on some (`take` without an axis), so this
is a pass of its own: a value made channels last keeps a twin in the model's own order only where
something else asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import ir, relax
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.analysis.limits import LIMITS
from tir_schedules.fuel import is_out, spend

from ..graph.graph_functions import graph_functions
from .convolution import (
    CHANNELS_FIRST,
    CHANNELS_LAST,
    KERNEL,
    SPATIAL,
    TRANSPOSED,
    is_depthwise,
    keeps_dtype,
)
from .transposed_convolution import refuse_transposed
from .weights import pack_alike, shape_of

_UNARY = frozenset(
    f"relax.{name}"
    for name in (
        *("abs", "astype", "ceil", "clip", "cos", "erf", "exp", "floor", "log", "negative"),
        *("nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu", "nn.silu", "round", "rsqrt"),
        *("sigmoid", "sign", "sin", "sqrt", "square", "tanh"),
    )
)
_BROADCAST = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power"),
        *("equal", "greater", "greater_equal", "less", "less_equal", "not_equal", "where"),
    )
)
_REDUCTIONS = frozenset(f"relax.{name}" for name in ("max", "mean", "min", "sum"))
_POOLS = frozenset(("relax.nn.max_pool2d", "relax.nn.avg_pool2d"))
CARRIED = _UNARY | _BROADCAST | _POOLS | {"relax.nn.adaptive_avg_pool2d"}


@tvm.transform.module_pass(opt_level=0, name="ChannelsLast")
class ChannelsLast:
    """Compute convolutions, and what lies between them, with the channels last.

    rewrite: a = conv2d(x, w); b = nn.relu(a); y = conv2d(b, v)
          -> t = permute_dims(x); a = conv2d(t, w, NHWC); b = nn.relu(a)
             y = permute_dims(conv2d(b, v, NHWC))
    """

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        carrier = _Carrier(mod)
        for gvar, func in graph_functions(mod):
            carrier.builder_.update_func(gvar, carrier.visit_expr(func))
        return carrier.builder_.get()


@relax.expr_functor.mutator
class _Carrier(relax.PyExprMutator):
    """`twins`: the channels-last variable of a variable of the old function."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._twins: dict[relax.Var, relax.Expr] = {}
        self._only_last: set[relax.Var] = set()

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        self._twins.clear()
        self._only_last.clear()
        return super().visit_dataflow_block_(block)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        able = isinstance(binding.value, relax.Call) and not is_out()
        made = self._channels_last(binding.value) if able else None
        if made is None:
            super().visit_var_binding_(binding)
            return
        spend("ChannelsLast", binding.var.name)
        twin = self.builder_.emit(made, _name(binding.var))
        if isinstance(binding.var, relax.DataflowVar):
            self._twins[binding.var] = twin
            self._only_last.add(binding.var)
        else:
            super().visit_var_binding_(relax.VarBinding(binding.var, _back(twin)))

    def visit_dataflow_var_(self, var: relax.DataflowVar) -> relax.Expr:
        """Give who asks for it a value that so far is only there channels last."""
        if var in self._only_last:
            self._only_last.remove(var)
            self.set_var_remap(var, self.builder_.emit(_back(self._twins[var]), _name(var)))
        return super().visit_dataflow_var_(var)

    def _channels_last(self, call: relax.Call) -> relax.Expr | None:
        """Return the call on channels-last arguments, None if it is better left as it is."""
        name = call.op.name if isinstance(call.op, ir.Op) else ""
        if name in SPATIAL:
            return self._convolution(call, SPATIAL[name])
        if name in TRANSPOSED:
            return self._transposed(call, TRANSPOSED[name])
        if not any(a in self._twins for a in call.args if isinstance(a, relax.Var)):
            return None
        if name in _UNARY:
            return relax.Call(call.op, [self._twin(call.args[0]), *call.args[1:]], call.attrs)
        if name in _BROADCAST:
            sides = [self._side(side, call.ty.ndim) for side in call.args]
            return relax.Call(call.op, sides, call.attrs)
        if name in _POOLS:
            return self._pool(call)
        if name in _REDUCTIONS and call.attrs.keepdims and call.attrs.axis is not None:
            order = _to_last(call.args[0].ty.ndim)
            axes = [order.index(int(axis) % len(order)) for axis in call.attrs.axis]
            function = getattr(relax.op, name.rpartition(".")[2])
            return function(self._twin(call.args[0]), axis=axes, keepdims=True)
        if name == "relax.nn.adaptive_avg_pool2d" and call.attrs.layout == "NCHW":
            size = call.attrs.output_size
            return relax.op.nn.adaptive_avg_pool2d(self._twin(call.args[0]), size, "NHWC")
        return None

    def _convolution(self, call: relax.Call, rank: int) -> relax.Expr | None:
        attrs = call.attrs
        first = CHANNELS_FIRST[rank]
        if attrs.data_layout != first or attrs.kernel_layout != KERNEL[rank]:
            return None
        if attrs.out_layout not in ("", first) or not keeps_dtype(call):
            return None
        if self._is_better_alone(call):
            return None
        function = getattr(relax.op.nn, f"conv{rank}d")
        return function(
            self._twin(call.args[0]),
            self.visit_expr(call.args[1]),
            strides=attrs.strides,
            padding=attrs.padding,
            dilation=attrs.dilation,
            groups=attrs.groups,
            data_layout=CHANNELS_LAST[rank],
            kernel_layout=KERNEL[rank],
        )

    def _transposed(self, call: relax.Call, rank: int) -> relax.Expr | None:
        if refuse_transposed(call, CHANNELS_FIRST) is not None or is_depthwise(call):
            return None
        names = ("strides", "padding", "output_padding", "dilation", "groups", "kernel_layout")
        options = {name: getattr(call.attrs, name) for name in names}
        function = getattr(relax.op.nn, f"conv{rank}d_transpose")
        image, weight = self._twin(call.args[0]), self.visit_expr(call.args[1])
        return function(image, weight, data_layout=CHANNELS_LAST[rank], **options)

    def _is_better_alone(self, call: relax.Call) -> bool:
        """Return whether lanes along a line of the image are better than a group's few channels."""
        groups = int(call.attrs.groups)
        if groups == 1 or call.args[0] in self._twins:
            return False
        if not pack_alike(*call.args) or is_depthwise(call):
            return True
        made = shape_of(call.args[1])[0] // groups
        return made < LIMITS.least_lanes and set(map(int, call.attrs.strides)) == {1}

    def _pool(self, call: relax.Call) -> relax.Expr | None:
        attrs = call.attrs
        if attrs.layout != "NCHW" or attrs.out_layout not in ("", "NCHW"):
            return None
        options = {key: getattr(attrs, key) for key in ("strides", "padding", "dilation")}
        options |= {"ceil_mode": attrs.ceil_mode, "layout": "NHWC"}
        options["count_include_pad"] = attrs.count_include_pad
        function = getattr(relax.op.nn, call.op.name.rpartition(".")[2])
        return function(self._twin(call.args[0]), pool_size=attrs.pool_size, **options)

    def _side(self, side: relax.Expr, rank: int) -> relax.Expr:
        """Return an operand of an element-wise op channels last, one that broadcasts too."""
        if side.ty.ndim == rank:
            return self._twin(side)
        here, shape = self.visit_expr(side), [int(extent) for extent in side.ty.shape.values]
        if math.prod(shape) == 1:
            return here
        whole = relax.op.reshape(here, [1] * (rank - len(shape)) + shape)
        return self.builder_.emit(relax.op.permute_dims(self.builder_.emit(whole), _to_last(rank)))

    def _twin(self, value: relax.Expr) -> relax.Expr:
        if isinstance(value, relax.Var) and value in self._twins:
            return self._twins[value]
        here = self.visit_expr(value)
        made = self.builder_.emit(relax.op.permute_dims(here, _to_last(value.ty.ndim)))
        if isinstance(value, relax.Var):
            self._twins[value] = made
        return made


def _name(var: relax.Var) -> str:
    """Return a name that still tells which node of the user's model a variable comes from."""
    return f"{var.name}_turned"


def _to_last(rank: int) -> Sequence[int]:
    return [0, *range(2, rank), 1]


def _back(twin: relax.Expr) -> relax.Expr:
    rank = twin.ty.ndim
    return relax.op.permute_dims(twin, [0, rank - 1, *range(1, rank - 1)])
