"""Lay the weights of products and convolutions out as the microkernel reads them, at compile time.

A register tile walks a column panel of the weight from top to bottom. In the row-major weight each
step is a row of N elements further: another page, no hardware stream. Packed, the panel is one
stretch of memory (oneDNN Graph Compiler, arXiv 2301.01333, section 3: constant weights are blocked
once).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tvm
from tvm import ir, relax, te
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.analysis.expr import dtype_bytes
from tir_schedules.cpu.contraction import depth_block, lanes_of
from tir_schedules.device import Device

from . import convolution
from .graph_functions import graph_functions

_DTYPES = ("float32", "float64")
_PAGE_BYTES = 4096
_FULL_SETS = 512  # lines a page apart in a cache of 2 MiB and 16 ways: 32 sets of it
_READINGS = 64  # rows that repay the copy of a panel: five blocks of 14 read it
_MOST_PADDING = 8  # columns for each that is padded: memory and arithmetic grow by an eighth


@tvm.transform.module_pass(opt_level=0, name="PackWeights")
class PackWeights:
    """Turn products with a weight into products with its column panels.

    rewrite: matmul(x, w[K, N])
          -> panels = permute_dims(reshape(w, [K, N // lanes, lanes]), [1, 0, 2])
             call_tir(packed_matmul, (x, panels))
             conv2d(x, w[O, I, H, W])     # channels last
          -> call_tir(packed_conv, (x, ...w[O // lanes, H, W, I, lanes]))

    Weights are constants, and the parameters behind the first `num_input` (an attribute of the
    function), whose new layout `fold_weights` computes. Those that something else reads too stay as
    they are: a weight is stored once. What each run makes is laid out only where its lines collide
    in the caches and are read often. Columns that fill no whole panels are padded, and the result
    cut, if the weight is beyond L2 and hardly grows. Runs before LegalizeOps.
    """

    def __init__(self, device: Device | None = None) -> None:
        self._device = device

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        device = self._device or Device.detect(tvm.target.Target.current(allow_none=False))
        graphs = graph_functions(mod)
        packer = _Packer(mod, device, _weights_only([func for _, func in graphs]))
        for gvar, func in graphs:
            packer.builder_.update_func(gvar, packer.visit_expr(func))
        return packer.builder_.get()


def _weights_only(graphs: list[relax.Function]) -> set[object]:
    """Return the keys of the weights that are only ever the right side of a product."""
    products: dict[object, int] = {}
    uses: dict[object, int] = {}
    known: set[object] = set()

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.Tuple):
            arguments, right = list(node.fields), None
        elif isinstance(node, relax.Call):
            arguments = [a for a in node.args if not isinstance(a, relax.Tuple)]
            right = node.args[1] if _is_product(node) else None
        else:
            return
        for argument in arguments:
            if not isinstance(argument.ty, relax.TensorType):
                continue
            if isinstance(argument, ir.Constant) or _key(argument) in known:
                uses[_key(argument)] = uses.get(_key(argument), 0) + 1
        if right is not None:
            products[_key(right)] = products.get(_key(right), 0) + 1

    for func in graphs:
        inputs = func.attrs.get("num_input") if func.attrs else None
        if inputs is not None:
            known.update(_key(param) for param in func.params[int(inputs) :])
        relax.analysis.post_order_visit(func, visit)
    return {key for key, count in products.items() if uses.get(key) == count}


def _pack_alike(x: relax.Expr, right: relax.Expr) -> bool:
    """Return whether the operands have one dtype, one that packs, and elements."""
    dtype = str(right.ty.dtype)
    if dtype not in _DTYPES or str(x.ty.dtype) != dtype:
        return False
    return all(isinstance(t.ty.shape, relax.ShapeExpr) and math.prod(_shape(t)) for t in (x, right))


def _pays(x: relax.Expr, right: relax.Expr) -> bool:
    """Return whether an operand that each run makes is worth a copy in panels.

    Lines some half pages apart fall into few sets of a cache: a deep panel comes from beyond L2.
    """
    *batch, depth, columns = _shape(right)
    rows = math.prod(_shape(x)[:-1]) // math.prod(batch)
    stride = columns * dtype_bytes(str(right.ty.dtype))
    collides = stride >= _PAGE_BYTES and stride % (_PAGE_BYTES // 2) == 0
    return collides and depth >= _FULL_SETS and rows >= _READINGS


def _is_product(call: relax.Call) -> bool:
    name = call.op.name if isinstance(call.op, ir.Op) else ""
    return name == "relax.matmul" or name in convolution.SPATIAL


def _key(weight: relax.Expr) -> object:
    if isinstance(weight, ir.Constant):
        return weight.value.numpy().ctypes.data
    return weight


@relax.expr_functor.mutator
class _Packer(relax.PyExprMutator):
    def __init__(self, mod: IRModule, device: Device, weights: set[object]) -> None:
        super().__init__(mod)
        self._device, self._weights = device, weights
        self._made: dict[tuple, relax.Expr] = {}

    def visit_binding_block_(self, block: relax.BindingBlock) -> relax.BindingBlock:
        self._made.clear()  # what one dataflow block makes no other sees
        return super().visit_binding_block_(block)

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        self._made.clear()
        return super().visit_dataflow_block_(block)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not _is_product(call) or not _pack_alike(*call.args):
            return call
        known = _key(call.args[1]) in self._weights
        if call.op.name == "relax.matmul":
            pays = known or _pays(*call.args)
            return self._product(call, *call.args) if pays else call
        return self._convolution(call, *call.args) if known else call

    def _product(self, call: relax.Call, x: relax.Expr, weight: relax.Expr) -> relax.Call:
        *batch, depth, columns = _shape(weight)
        if len(_shape(x)) < 2 or batch not in ([], _shape(x)[:-2]):
            return call
        lanes, extra = self._lanes(columns, weight), 0
        widest = lanes_of(self._device, columns, str(weight.ty.dtype))
        more = -columns % widest
        if more * _MOST_PADDING <= columns and self._is_large(weight):
            lanes, extra = widest, more
        if lanes is None:
            return call
        blocks = (*batch, depth, (columns + extra) // lanes, lanes)
        last = len(batch)
        order = (*range(last), last + 1, last, last + 2)
        panels = self._laid_out(weight, blocks, order, [0, 0] * (last + 1) + [0, extra])
        block = depth_block(depth, _shape(x)[-2], lanes, self._device)

        def compute(x: te.Tensor, panels: te.Tensor) -> te.Tensor:
            return _product(x, panels, block)

        whole = self.builder_.call_te(compute, x, panels, primfunc_name_hint="packed_matmul")
        if not extra:
            return whole
        whole = self.builder_.emit(whole)
        return relax.op.strided_slice(whole, [len(_shape(x)) - 1], [0], [columns])

    def _is_large(self, weight: relax.Expr) -> bool:
        """Return whether a row-major weight's columns are a page of memory a step."""
        bytes_ = math.prod(_shape(weight)) * dtype_bytes(str(weight.ty.dtype))
        return bytes_ > self._device.l2_bytes

    def _convolution(self, call: relax.Call, x: relax.Expr, weight: relax.Expr) -> relax.Call:
        at = convolution.window(call)
        if at is None:
            return call
        channels, depth, *sizes = _shape(weight)
        taps = [number + 2 for number in range(len(sizes))]
        if int(call.attrs.groups) == channels and depth == 1:
            kernel = self._laid_out(weight, (channels, 1, *sizes), (1, *taps, 0))
            function = convolution.convolve_depthwise
        else:
            lanes = self._lanes(channels, weight)
            if lanes is None or int(call.attrs.groups) != 1:
                return call
            blocks = (channels // lanes, lanes, depth, *sizes)
            kernel = self._laid_out(weight, blocks, (0, *(t + 1 for t in taps), 2, 1))
            function = convolution.convolve
        image, at = convolution.padded(self.builder_, x, sizes, at)

        def compute(x: te.Tensor, kernel: te.Tensor) -> te.Tensor:
            return function(x, kernel, at)

        return self.builder_.call_te(compute, image, kernel, primfunc_name_hint=function.__name__)

    def _laid_out(
        self,
        weight: relax.Expr,
        shape: Sequence[int],
        order: Sequence[int],
        edges: Sequence[int] = (),
    ) -> relax.Expr:
        """Return a weight padded, reshaped and then transposed; a constant at once."""
        key = (_key(weight), tuple(shape), tuple(order))
        if key in self._made:
            return self._made[key]
        if isinstance(weight, ir.Constant):
            array = weight.value.numpy()
            if any(edges):
                array = np.pad(array, list(zip(edges[::2], edges[1::2], strict=True)))
            array = array.reshape(shape).transpose(order)
            self._made[key] = relax.const(np.ascontiguousarray(array))
        else:
            if any(edges):
                weight = self.builder_.emit(relax.op.nn.pad(weight, list(edges)))
            blocks = self.builder_.emit(relax.op.reshape(weight, shape))
            self._made[key] = self.builder_.emit(relax.op.permute_dims(blocks, order))
        return self._made[key]

    def _lanes(self, columns: int, weight: relax.Expr) -> int | None:
        """Return the columns of a panel, None if there are no whole ones of half a register."""
        dtype = str(weight.ty.dtype)
        lanes = lanes_of(self._device, columns, dtype)
        while columns % lanes:
            lanes //= 2
        return lanes if 2 * lanes * dtype_bytes(dtype) >= self._device.vector_bytes else None


def _shape(value: relax.Expr) -> list[int]:
    return [int(extent) for extent in value.ty.shape.values]


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
