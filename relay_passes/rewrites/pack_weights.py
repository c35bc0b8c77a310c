"""Lay the weights of products and convolutions out as the microkernel reads them, at compile time.

A register tile walks a column panel of the weight from top to bottom. In the row-major weight each
step is a row of N elements further: another page, no hardware stream. Packed, the panel is one
stretch of memory (oneDNN Graph Compiler, arXiv 2301.01333, section 3: constant weights are blocked
once).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tvm
from tvm import relax, te
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.backend import backend, current_device
from tir_schedules.decision_source import chosen_form
from tir_schedules.device import PAGE_BYTES, Device
from tir_schedules.fuel import is_out, spend
from tir_schedules.kernel_ir.expr import dtype_bytes

from ..graph.graph_functions import graph_functions
from ..policy import POLICY, LayoutPolicy
from . import convolution
from .choose_winograd import Site, choose_winograd, site_of
from .col2im import Taps, col2im, shares_lanes, taps_of_gathers, taps_of_window
from .convolution import Window
from .panels import Panels
from .transposed_channels_first import convolve_exactly, multiplies_zeros
from .transposed_convolution import convolve_transposed, gathers, refuse_transposed
from .weights import Weights, is_product, key_of, pack_alike, shape_of
from .winograd import Filtering, convolve_guarded, convolve_winograd

PRODUCT_FORMS = ("panels", "rows")


@tvm.transform.module_pass(opt_level=0, name="PackWeights")
class PackWeights:
    """Turn products with a weight into products with its column panels.

    rewrite: matmul(x, w[K, N])
          -> panels = permute_dims(reshape(w, [K, N // lanes, lanes]), [1, 0, 2])
             call_tir(packed_matmul, (x, panels))
             conv2d(x, w[O, I, H, W])     # channels last
          -> call_tir(packed_conv, (x, ...w[O // lanes, H, W, I, lanes]))
             grouped, transposed and depthwise ones likewise
             or, to a few channels,
             a = call_tir(packed_conv, (x, ...w[H * W * O // lanes, 1, 1, I, lanes]))
             call_tir(col2im, (a,))
             or, where that is predicted to pay, of a 3x3 kernel
             panels = ...w[O // lanes, 3, 3, I, lanes]
             call_tir(convolve_winograd, (x, call_tir(transform_kernel, (panels,)), panels))

    Weights are constants, and the parameters behind the first `num_input` (an attribute of the
    function): `fold_weights` computes their new layout, and `prepare_weights` has transformed
    kernels made when the model is loaded. Those that something else reads too stay as they are;
    with `prepares`, which says that both follow, products of several rows get panels of them too.
    What each run makes is laid out only where its lines collide in the caches and are read often.
    Columns that fill no whole panels are padded, and the result cut, if the weight hardly grows, or
    if they are too few for one.

    Infinities and NaN come out as if each product were made: zeros of the padding are multiplied by
    a weight that has some, or whose numbers are not known, which are those of constants and
    `arrays`, of the parameters of `main` behind its inputs. Runs before LegalizeOps.
    """

    def __init__(
        self,
        device: Device | None = None,
        prepares: bool = False,
        arrays: Sequence[np.ndarray] = (),
        policy: LayoutPolicy = POLICY.layout,
    ) -> None:
        self._device, self._prepares, self._arrays = device, prepares, arrays
        self._policy = policy

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        device = self._device or current_device()
        if device is None:
            return mod
        graphs = graph_functions(mod)
        functions = [func for _, func in graphs]
        weights = Weights(functions, self._numbers(mod))
        packs = backend(device).weights is not None
        filtered = choose_winograd(functions, weights, device, self._policy) if packs else {}
        packer = _Packer(mod, device, weights, filtered, self._prepares, self._policy)
        for gvar, func in graphs:
            packer.builder_.update_func(gvar, packer.visit_expr(func))
        return packer.builder_.get()

    def _numbers(self, mod: IRModule) -> dict[relax.Var, np.ndarray]:
        if not self._arrays:
            return {}
        main = mod["main"]
        return dict(zip(main.params[int(main.attrs["num_input"]) :], self._arrays, strict=True))


def _pays(x: relax.Expr, right: relax.Expr, policy: LayoutPolicy) -> bool:
    """Return whether an operand that each run makes is worth a copy in panels.

    Lines some half pages apart fall into few sets of a cache: a deep panel comes from beyond L2.
    """
    *_, depth, columns = shape_of(right)
    stride = columns * dtype_bytes(str(right.ty.dtype))
    collides = stride >= PAGE_BYTES and stride % (PAGE_BYTES // 2) == 0
    return collides and depth >= policy.full_sets and _rows(x, right) >= policy.readings


def _rows(x: relax.Expr, right: relax.Expr) -> int:
    return math.prod(shape_of(x)[:-1]) // math.prod(shape_of(right)[:-2])


@relax.expr_functor.mutator
class _Packer(relax.PyExprMutator):
    """Lays `weights` out; convolutions at the sites in `filtered` go by minimal filtering."""

    def __init__(
        self,
        mod: IRModule,
        device: Device,
        weights: Weights,
        filtered: Mapping[Site, Filtering],
        prepares: bool,
        policy: LayoutPolicy,
    ) -> None:
        super().__init__(mod)
        self._device, self._weights, self._filtered = device, weights, filtered
        self._prepares, self._policy = prepares, policy
        self._layout = backend(device).weights
        self._panels = Panels(self.builder_, device)
        self._place = self._form = ""

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._place = binding.var.name
        super().visit_var_binding_(binding)

    def visit_binding_block_(self, block: relax.BindingBlock) -> relax.BindingBlock:
        self._panels.forget()  # what one dataflow block makes no other sees
        return super().visit_binding_block_(block)

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        self._panels.forget()
        return super().visit_dataflow_block_(block)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if multiplies_zeros(call) and not self._weights.is_moderate(call.args[1]):
            exactly = functools.partial(convolve_exactly, call=call)
            return self._call(convolve_exactly.__name__, exactly, *call.args)
        if self._layout is None:
            return call
        if is_out() or not is_product(call) or not pack_alike(*call.args):
            return call
        made = self._packed(call)
        if not made.same_as(call):
            spend(f"PackWeights: {self._form}", self._place)
        return made

    def _packed(self, call: relax.Call) -> relax.Expr:
        x, right = call.args
        known = key_of(right) in self._weights.own
        if call.op.name in convolution.TRANSPOSED:
            return self._transposed(call, x, right)
        if call.op.name != "relax.matmul":
            return self._convolution(call, x, right) if known else call
        if len(shape_of(right)) < 2:
            return call  # a vector has no panels
        several = _rows(x, right) >= self._policy.several
        held = known or (self._prepares and self._weights.holds(right) and several)
        forms = PRODUCT_FORMS if held or _pays(x, right, self._policy) else PRODUCT_FORMS[::-1]
        kind = "weight" if held else "each run's"
        op = f"{call.op.name} {shape_of(x)} {shape_of(right)} {right.ty.dtype} {kind}"
        chosen = chosen_form(op, forms, self._device)
        return self._product(call, x, right) if chosen == PRODUCT_FORMS[0] else call

    def _product(self, call: relax.Call, x: relax.Expr, weight: relax.Expr) -> relax.Call:
        *batch, depth, columns = shape_of(weight)
        if len(shape_of(x)) < 2 or batch not in ([], shape_of(x)[:-2]):
            return call
        dtype = str(weight.ty.dtype)
        lanes, extra = self._layout.lanes(columns, dtype, self._device), 0
        widest = self._layout.widest(columns, dtype, self._device)
        more = -columns % widest
        if more * self._most_padding(weight) <= columns:
            lanes, extra = widest, more
        filled = self._layout.filled(columns, dtype, self._device)
        if filled > columns and _rows(x, weight) >= self._policy.several:
            lanes, extra = filled, filled - columns
        if lanes is None:
            return call
        # Of wide panels blocks are as deep: those of 2048 x 2048 are 5 % faster whole, half of L2.
        block = self._layout.depth_block(depth, shape_of(x)[-2], lanes, self._device)
        if self._is_wide(shape_of(x)[-2], depth, columns, dtype):
            lanes, extra = self._layout.wide(dtype, self._device), 0
        blocks = (*batch, depth, (columns + extra) // lanes, lanes)
        last = len(batch)
        order = (*range(last), last + 1, last, last + 2)
        panels = self._panels.laid_out(weight, blocks, order, [0, 0] * (last + 1) + [0, extra])

        def compute(x: te.Tensor, panels: te.Tensor) -> te.Tensor:
            return _product(x, panels, block)

        whole = self._call("packed_matmul", compute, x, panels)
        return self._cut(whole, [*shape_of(x)[:-1], columns + extra], shape_of(call))

    def _is_wide(self, rows: int, apart: int, columns: int, dtype: str) -> bool:
        return self._layout.rows_collide(rows, apart, columns, dtype, self._device)

    def _most_padding(self, weight: relax.Expr) -> int:
        """Return how many columns repay one that is padded: fewer if each step is a page away."""
        bytes_ = math.prod(shape_of(weight)) * dtype_bytes(str(weight.ty.dtype))
        more = 1 if bytes_ > self._device.l2_bytes else self._policy.padding_in_cache
        return more * self._policy.padding

    def _convolution(self, call: relax.Call, x: relax.Expr, weight: relax.Expr) -> relax.Call:
        at = convolution.window(call)
        if at is None:
            return call
        channels, depth, *sizes = shape_of(weight)
        by = self._filtered.get(site_of(call, at))
        if by is not None:
            return self._winograd(x, weight, at, by)
        if not self._weights.is_moderate(weight):
            x, at = convolution.padded(self.builder_, x, at)
        taps, groups = [number + 2 for number in range(len(sizes))], int(call.attrs.groups)
        axes = taps_of_window(call, at)
        if groups == 1 and axes is not None and shares_lanes(axes, depth, channels, self._policy):
            columns = self._panels.laid_out(weight, (channels, depth, math.prod(sizes)), (1, 2, 0))
            return self._columns(x, columns, axes)
        if convolution.is_depthwise(call):
            kernel = self._panels.laid_out(weight, (channels, 1, *sizes), (1, *taps, 0))
            if channels > groups:
                x = self.builder_.emit(relax.op.repeat(x, channels // groups, len(sizes) + 1))
            function, extra = convolution.convolve_depthwise, 0
            name = "convolve_depthwise"
        else:
            dtype = str(weight.ty.dtype)
            lanes, extra = self._panels.lanes(channels // groups, groups, dtype)
            if set(sizes) == {1} and not any((*at.before, *at.after)):
                pixels, apart = math.prod(shape_of(call)[1:-1]), shape_of(x)[-1] * at.strides[-1]
                wide = self._is_wide(pixels, apart, channels // groups, dtype)
                panel = depth * self._layout.wide(dtype, self._device) * dtype_bytes(dtype)
                if wide and panel <= self._device.l2_bytes // 4:
                    lanes, extra = self._layout.wide(dtype, self._device), 0
            blocks = ((channels + extra) // lanes, lanes, depth, *sizes)
            order, edges = (0, *(t + 1 for t in taps), 2, 1), [0, extra] + [0, 0] * (1 + len(taps))
            kernel = self._panels.laid_out(weight, blocks, order, edges)
            function = functools.partial(convolution.convolve, groups=groups)
            name = "convolve"
        if not convolution.leaves_padding_out(x, sizes, at, self._policy.few_channels):
            x, at = convolution.padded(self.builder_, x, at)

        def compute(x: te.Tensor, kernel: te.Tensor) -> te.Tensor:
            return function(x, kernel, at)

        whole = self._call(name, compute, x, kernel)
        *image, _ = wanted = shape_of(call)
        return self._cut(whole, [*image, channels + extra], wanted)

    def _transposed(self, call: relax.Call, x: relax.Expr, weight: relax.Expr) -> relax.Call:
        """Return the gathers of a channels-last one: TVM has no kernel of that layout."""
        if refuse_transposed(call, convolution.CHANNELS_LAST) is not None:
            return call
        at, groups = gathers(call), int(call.attrs.groups)
        depth, outs, *sizes = shape_of(weight)
        axes = taps_of_gathers(at)
        if groups == 1 and shares_lanes(axes, depth, outs, self._policy):
            columns = self._panels.laid_out(weight, (depth, outs, math.prod(sizes)), (0, 2, 1))
            return self._columns(x, columns, axes)
        lanes, extra = self._panels.lanes(outs, groups, str(weight.ty.dtype))
        blocks = (groups, depth // groups, (outs + extra) // lanes, lanes, *sizes)
        taps = [number + 4 for number in range(len(sizes))]
        edges = [0, 0, 0, extra] + [0, 0] * len(sizes)
        kernel = self._panels.laid_out(weight, blocks, (0, 2, *taps, 1, 3), edges)

        def compute(x: te.Tensor, kernel: te.Tensor) -> te.Tensor:
            return convolve_transposed(x, kernel, at)

        whole = self._call(convolve_transposed.__name__, compute, x, kernel)
        lines = [axis.places * axis.stride for axis in at]
        made = [shape_of(call)[0], *lines, groups * outs + extra]
        return self._cut(whole, made, shape_of(call))

    def _columns(self, x: relax.Expr, weight: relax.Expr, axes: Sequence[Taps]) -> relax.Call:
        """Return the convolution by a weight of shape (I, taps, O) as a product and sums of it."""
        depth, taps, outs = shape_of(weight)
        rank, width = len(axes), taps * outs
        lanes, extra = self._panels.lanes(width, 1, str(weight.ty.dtype))
        blocks = (depth, (width + extra) // lanes, *[1] * rank, lanes)
        order, edges = (1, *range(2, rank + 2), 0, rank + 2), [0, 0, 0, extra]
        flat = self._panels.laid_out(weight, (depth, width), (0, 1))
        kernel = self._panels.laid_out(flat, blocks, order, edges)
        alone = Window((1,) * rank, (1,) * rank, (0,) * rank, (0,) * rank)

        def multiply(x: te.Tensor, kernel: te.Tensor) -> te.Tensor:
            return convolution.convolve(x, kernel, alone)

        def add(images: te.Tensor) -> te.Tensor:
            return col2im(images, outs, axes)

        images = self.builder_.emit(self._call("convolve", multiply, x, kernel))
        return self._call(col2im.__name__, add, images)

    def _cut(self, whole: relax.Call, made: list[int], wanted: list[int]) -> relax.Call:
        """Return the result that was wanted of one that was made."""
        axes = [a for a, size in enumerate(made) if size != wanted[a]]
        if not axes:
            return whole
        ends = [wanted[a] for a in axes]
        return relax.op.strided_slice(self.builder_.emit(whole), axes, [0] * len(axes), ends)

    def _winograd(self, x: relax.Expr, weight: relax.Expr, at: Window, by: Filtering) -> relax.Call:
        def compute(x: te.Tensor, kernel: te.Tensor, panels: te.Tensor) -> te.Tensor:
            return convolve_guarded(x, kernel, panels, at, by)

        panels = self._panels.convolution(weight)
        kernel = self._panels.transformed(weight, by)
        return self._call(convolve_winograd.__name__, compute, x, kernel, panels)

    def _call(self, name: str, compute: Callable, *tensors: relax.Expr) -> relax.Call:
        self._form = name
        return self.builder_.call_te(compute, *tensors, primfunc_name_hint=name)


def _product(x: te.Tensor, panels: te.Tensor, block: int) -> te.Tensor:
    """Return the product; blocks of the depth add up in tiles of their own, outside the rows."""
    *batch, count, depth, lanes = (int(n) for n in panels.shape)
    k = te.reduce_axis((0, block), "k")

    def point(b: te.Expr, *index: te.Var) -> te.Expr:
        *rows, n = index
        at = b * block + k
        panel = panels[(*rows[: len(batch)], n // lanes, at, n % lanes)]
        return te.sum(x[(*rows, at)] * panel, axis=k)

    shape = (*x.shape[:-1], count * lanes)
    if block == depth:
        return te.compute(shape, lambda *index: point(0, *index), "packed_matmul")
    parts = te.compute((depth // block, *shape), point, "packed_matmul")
    b = te.reduce_axis((0, depth // block), "b")
    return te.compute(shape, lambda *index: te.sum(parts[(b, *index)], axis=b), "sum_blocks")
