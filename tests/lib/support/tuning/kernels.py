"""Kernels of several kinds, small: softmax, a product, a convolution, attention, a LayerNorm."""

from __future__ import annotations

from collections.abc import Callable

from tvm import te, tirx, topi
from tvm.target import Target

from tir_schedules.backend import device_of
from tir_schedules.device import CpuDevice
from tvm_stitch import targets

TARGET: Target = targets.resolve("x86", 2)


def device(threads: int = 2) -> CpuDevice:
    return device_of(TARGET, threads)


def softmax(rows: int = 33, columns: int = 129) -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), "float32", "x")
    return te.create_prim_func([x, topi.nn.softmax(x, 1)])


def product(rows: int = 31, depth: int = 65, columns: int = 64) -> tirx.PrimFunc:
    x = te.placeholder((rows, depth), "float32", "x")
    weight = te.placeholder((depth, columns), "float32", "weight")
    return te.create_prim_func([x, weight, topi.nn.relu(topi.matmul(x, weight))])


def convolution(channels: int = 16, size: int = 9) -> tirx.PrimFunc:
    x = te.placeholder((1, size, size, channels), "float32", "x")
    weight = te.placeholder((3, 3, channels, 2 * channels), "float32", "weight")
    return te.create_prim_func([x, weight, topi.nn.conv2d_nhwc(x, weight, 1, 1, 1)])


def attention(heads: int = 3, keys: int = 37, depth: int = 16) -> tirx.PrimFunc:
    q, k, v = (te.placeholder((heads, keys, depth), "float32", n) for n in "qkv")
    scores = topi.nn.softmax(topi.nn.batch_matmul(q, k), 2)
    values = topi.transpose(v, (0, 2, 1))
    return te.create_prim_func([q, k, v, topi.nn.batch_matmul(scores, values)])


def normalised(rows: int = 17, columns: int = 96) -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), "float32", "x")
    scale = te.placeholder((columns,), "float32", "scale")
    shift = te.placeholder((columns,), "float32", "shift")
    return te.create_prim_func([x, scale, shift, topi.nn.layer_norm(x, scale, shift, [1], 1e-5)])


KERNELS: dict[str, Callable[[], tirx.PrimFunc]] = {
    "softmax": softmax,
    "product": product,
    "convolution": convolution,
    "attention": attention,
    "normalised": normalised,
}
