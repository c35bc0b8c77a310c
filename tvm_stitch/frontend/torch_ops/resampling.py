"""PyTorch's pooling and interpolation where TVM's importer leaves out an argument.

Positions and weights are PyTorch's own: of its operator on numbers of places, or on unit vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from .emitted import Emitted, by_name

_ATEN = torch.ops.aten


def _is_plain(node: fx.Node, scales: Sequence[float] | None) -> bool:
    """Return whether a scale is what the extents are to each other: TVM goes by those."""
    before, after = node.args[0].meta["val"].shape, node.meta["val"].shape
    given = scales or ()
    return all(
        int(n) * scale == int(m) for n, m, scale in zip(before[2:], after[2:], given, strict=False)
    )


def _weights(before: int, along: Callable[[torch.Tensor], torch.Tensor]) -> np.ndarray:
    """Return the matrix of a linear map of lines, each an image of one column."""
    # Two columns: of one PyTorch takes an image for one whose channels are last.
    units = torch.eye(before, dtype=torch.float64).reshape(1, before, before, 1).repeat(1, 1, 1, 2)
    return along(units)[0, :, :, 0].numpy()


def _by_matrices(ops: Emitted, x: relax.Expr, resize: Callable) -> relax.Expr:
    """Return an image whose lines and columns are products; `resize` is PyTorch's, of an axis."""
    for axis, after in ((2, int(ops.known.shape[2])), (3, int(ops.known.shape[3]))):
        before = int(x.ty.shape.values[axis])
        matrix = _weights(before, lambda units, a=axis, m=after: resize(units, [m, 2], a))
        dtype = str(x.ty.dtype)
        weight = relax.const(matrix.astype(dtype), dtype)
        if axis == 3:
            return ops.matmul(x, weight)
        turned = ops.matmul(ops.permute_dims(x, [0, 1, 3, 2]), weight)
        x = ops.permute_dims(turned, [0, 1, 3, 2])
    return x


def _resized(name: str, otherwise: str) -> Callable:
    """Return a converter of an interpolation by weights that are given scales."""
    packet = getattr(_ATEN, name)

    def convert(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Expr:
        x, _, corners, scales = (*node.args, None, None, None)[:4]
        scales = scales if scales is not None else node.kwargs.get("scale_factors")
        # TVM's weights are float32.
        is_wide = x.meta["val"].dtype == torch.float64
        if not is_wide and (corners or _is_plain(node, scales)):
            return getattr(importer, otherwise)(node)

        def resize(units: torch.Tensor, size: list[int], axis: int) -> torch.Tensor:
            scale = scales[axis - 2] if scales else None
            return packet.default(units, size, bool(corners), scale, None)

        return _by_matrices(Emitted(node, importer), importer.env[x], resize)

    return convert


def _antialiased(name: str) -> Callable:
    packet = getattr(_ATEN, name)

    def convert(
        ops: Emitted,
        x: relax.Expr,
        output_size: Sequence[int],
        align_corners: bool,
        scales_h: float | None,
        scales_w: float | None,
    ) -> relax.Expr:
        def resize(units: torch.Tensor, size: list[int], axis: int) -> torch.Tensor:
            scale = (scales_h, scales_w)[axis - 2]
            return packet.default(units, size, align_corners, scale, None)

        return _by_matrices(ops, x, resize)

    return by_name(convert)


def nearest(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Expr:
    """rewrite: upsample_nearest2d(x, ...) -> take(take(x, rows), columns)

    TVM's is PyTorch's where lines and columns are repeated.
    """
    scales = node.args[2] if len(node.args) > 2 else node.kwargs.get("scale_factors")
    ops, x = Emitted(node, importer), importer.env[node.args[0]]
    extents = list(zip(node.args[0].meta["val"].shape[2:], ops.known.shape[2:], strict=True))
    if _is_plain(node, scales) and not any(after % before for before, after in extents):
        return importer._upsample_nearest2d(node)
    for axis, scale in enumerate(scales or (None, None), 2):
        before, after = int(x.ty.shape.values[axis]), int(ops.known.shape[axis])
        line = torch.arange(before, dtype=torch.float64).reshape(1, 1, before)
        places = _ATEN.upsample_nearest1d.default(line, [after], scale).reshape(-1).long()
        x = ops.take(x, ops.const(places.numpy(), "int64"), axis)
    return x


def _average(rank: int) -> Callable:
    """Return a converter of avg_pool, whose divisor TVM's leaves out."""

    def convert(
        ops: Emitted,
        x: relax.Expr,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> relax.Expr:
        """rewrite: avg_pool(x, k, divisor_override=d) -> avg_pool(x, k) * (size of k / d)"""
        impl = getattr(ops.importer, f"_avg_pool{rank}d_impl")
        if divisor_override is None:
            return impl(x, kernel_size, stride, padding, ceil_mode, count_include_pad)
        if ceil_mode:
            remedy = "pad the image, and leave it out"
            raise ops.refuse("ceil_mode beside divisor_override", remedy)
        if not ops.known.dtype.is_floating_point:
            raise ops.refuse("divisor_override of integers", "pool floating-point numbers")
        kernel = [*kernel_size] * (rank // len(kernel_size))
        made = impl(x, kernel, stride, padding, False, True)
        return ops.multiply(made, ops.const(math.prod(kernel) / divisor_override))

    return by_name(convert)


def adaptive_max(ops: Emitted, x: relax.Expr, output_size: Sequence[int]) -> tuple[relax.Expr, ...]:
    """rewrite: adaptive_max_pool(x, m) -> max(take(x, windows)), axis by axis

    Raises: StitchError if the places are read.
    """
    if ops.is_read(1):
        raise ops.refuse("the places of its results are read", "read the values alone")
    rank = x.ty.ndim
    for axis, after in enumerate(output_size, rank - len(output_size)):
        shape = [int(extent) for extent in x.ty.shape.values]
        before = shape[axis]
        ends = [(n * before // after, -(-(n + 1) * before // after)) for n in range(after)]
        width = max(end - start for start, end in ends)
        # Windows that are shorter have their last element again.
        places = [[min(start + n, end - 1) for n in range(width)] for start, end in ends]
        taken = ops.take(x, ops.const(np.ravel(places), "int64"), axis)
        apart = ops.reshape(taken, [*shape[:axis], after, width, *shape[axis + 1 :]])
        x = ops.max(apart, axis + 1)
    return (x,)


def _largest(rank: int) -> Callable:
    """Return a converter of max_pool, whose places TVM's leaves out; no stride is the window."""

    def convert(
        ops: Emitted,
        x: relax.Expr,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
    ) -> tuple[relax.Expr, ...]:
        kernel, step, pad, apart = (
            [*each] * (rank // len(each))
            for each in (kernel_size, stride or kernel_size, padding, dilation)
        )
        impl = getattr(ops.importer, f"_max_pool{rank}d_impl")
        made = impl(x, kernel, step, pad, apart, ceil_mode)
        if isinstance(made, relax.Call):  # of an image without a batch
            made = ops.importer.block_builder.emit(made)
        if not ops.is_read(1):
            return (made,)
        if rank != 2:
            raise ops.refuse("the places of its results are read", "read the values alone")
        return made, _places(ops, x, kernel, step, pad, apart)

    return by_name(convert)


def _places(
    ops: Emitted,
    x: relax.Expr,
    kernel: Sequence[int],
    step: Sequence[int],
    pad: Sequence[int],
    apart: Sequence[int],
) -> relax.Expr:
    """Return where in its image the first largest element, or the first NaN, of each window is."""
    after, (height, width) = ops.known.shape[-2:], map(int, x.ty.shape.values[-2:])
    dtype = str(x.ty.dtype)
    lowest = ops.const(float(torch.finfo(ops.known.dtype).min), dtype)
    windows = ops.maximum(x, lowest)  # minus infinities are above what is outside
    starts = []
    for axis, before in ((0, height), (1, width)):
        start = np.arange(after[axis])[:, None] * step[axis] - pad[axis]
        at = start + np.arange(kernel[axis]) * apart[axis]
        shape = [int(extent) for extent in windows.ty.shape.values]
        place = len(shape) - 2 + axis
        shown = ops.const(np.clip(at, 0, before - 1).ravel(), "int64")
        taken = ops.take(windows, shown, place)
        inside = ((at >= 0) & (at < before)).reshape(-1, *(1,) * (1 - axis))
        taken = ops.where(ops.const(inside, "bool"), taken, ops.const(-math.inf, dtype))
        windows = ops.reshape(
            taken, [*shape[:place], after[axis], kernel[axis], *shape[place + 1 :]]
        )
        starts.append(start)
    rank = windows.ty.ndim
    order = [*range(rank - 4), rank - 4, rank - 2, rank - 3, rank - 1]
    lined = ops.reshape(ops.permute_dims(windows, order), [*ops.known.shape, math.prod(kernel)])
    largest = ops.max(lined, -1)
    nothing = ops.argmax(ops.astype(ops.isnan(lined), "int8"), -1)
    chosen = ops.where(ops.isnan(largest), nothing, ops.argmax(lined, -1))
    down = ops.floor_divide(chosen, ops.const(kernel[1], "int64"))
    across = ops.floor_mod(chosen, ops.const(kernel[1], "int64"))
    row, column = (
        ops.add(ops.const(start, "int64"), ops.multiply(way, ops.const(gap, "int64")))
        for start, way, gap in ((starts[0], down, apart[0]), (starts[1].T, across, apart[1]))
    )
    return ops.add(ops.multiply(row, ops.const(width, "int64")), column)


RESAMPLING = {
    "upsample_bilinear2d.vec": _resized("upsample_bilinear2d", "_upsample_bilinear2d"),
    "upsample_bicubic2d.vec": _resized("upsample_bicubic2d", "_upsample_bicubic2d"),
    "_upsample_bilinear2d_aa.default": _antialiased("_upsample_bilinear2d_aa"),
    "_upsample_bicubic2d_aa.default": _antialiased("_upsample_bicubic2d_aa"),
    "upsample_nearest2d.vec": nearest,
    "avg_pool2d.default": _average(2),
    "avg_pool3d.default": _average(3),
    "adaptive_max_pool2d.default": by_name(adaptive_max),
    "adaptive_max_pool3d.default": by_name(adaptive_max),
    "max_pool2d_with_indices.default": _largest(2),
    "max_pool3d_with_indices.default": _largest(3),
}
