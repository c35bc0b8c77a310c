"""Small models whose kernels take each structure of a plan, and the PrimFuncs of these kernels."""

from __future__ import annotations

from unittest import mock

import onnx.parser
from tvm import tirx

from tir_schedules import apply
from tir_schedules.device import CpuDevice
from tir_schedules.device.profile import default_profile
from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model

KIB = 1 << 10
# The caches of no machine: small tensors stream past them.
DEVICE = CpuDevice("none", 2, 8 * KIB, 64 * KIB, 256 * KIB, 64, default_profile("znver4", 64))

_MODELS = {
    "norm": "(float[512, 768] x) => (float[512, 768] y) { m = ReduceMean<axes=[-1]>(x)"
    " d = Sub(x, m) v = ReduceSumSquare<axes=[-1]>(d) r = Sqrt(v) y = Div(d, r) }",
    "softmax": "(float[96, 640] x) => (float[96, 640] y) { u = Tanh(x) y = Softmax<axis=-1>(u) }",
    "product": "(float[3, 192, 256] x, float[256, 160] w, float[160] b) =>"
    " (float[3, 192, 160] y) { p = MatMul(x, w) s = Add(p, b) y = Relu(s) }",
    "rows_apart": "(float[256, 1024] x, float[1024, 16] w) => (float[256, 16] y)"
    " { y = MatMul(x, w) }",
    "heads": "(float[24, 48, 32] q, float[24, 32, 48] k, float[24, 48, 32] v) =>"
    " (float[24, 48, 32] y) { s = MatMul(q, k) w = Exp(s) y = MatMul(w, v) }",
    "attention": "(float[2, 300, 16] q, float[2, 16, 300] k, float[2, 300, 16] v) =>"
    " (float[2, 300, 16] y) { s = MatMul(q, k) w = Softmax<axis=-1>(s) y = MatMul(w, v) }",
    "masked": "(float[2, 300, 16] q, float[2, 16, 300] k, float[2, 300, 16] v, float[300] m) =>"
    " (float[2, 300, 16] y) { s = MatMul(q, k) t = Add(s, m) w = Softmax<axis=-1>(t)"
    " y = MatMul(w, v) }",
    "turned": "(float[2, 300, 16] q, float[2, 300, 16] k, float[2, 300, 16] v) =>"
    " (float[2, 300, 16] y) { t = Transpose<perm=[0, 2, 1]>(k) s = MatMul(q, t)"
    " w = Softmax<axis=-1>(s) y = MatMul(w, v) }",
    "columns": "(float[4000, 24] x) => (float[24] y) { y = ReduceSum<keepdims=0>(x, a) }",
    "partial": "(float[1, 900000] x) => (float[1] y)"
    " { y = ReduceSumSquare<axes=[1], keepdims=0>(x) }",
    "pooled": "(float[40, 3, 30, 64] x) => (float[3, 64] y)"
    " { y = ReduceMax<axes=[0, 2], keepdims=0>(x) }",
    "transpose": "(float[96, 260] x) => (float[260, 96] y) { y = Transpose<perm=[1, 0]>(x) }",
    "depthwise": "(float[1, 64, 28, 28] x, float[64, 1, 3, 3] w) => (float[1, 64, 28, 28] y)"
    " { y = Conv<group=64, pads=[1, 1, 1, 1]>(x, w) }",
    "pool": "(float[2, 16, 60, 60] x) => (float[2, 16, 30, 30] y) { u = Exp(x)"
    " y = MaxPool<kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]>(u) }",
    "convolution": "(float[2, 32, 14, 14] x, float[64, 32, 3, 3] w) => (float[2, 64, 14, 14] y)"
    " { c = Conv<pads=[1, 1, 1, 1]>(x, w) y = Relu(c) }",
    "copy": "(float[1000, 512] x, float[1000, 1] s) => (float[1000, 512] y) { y = Div(x, s) }",
}
NAMES = tuple(_MODELS)


def model(name: str) -> onnx.ModelProto:
    text = _MODELS[name]
    constants = "<int64[1] a = {0}>" if "(x, a)" in text else ""
    head, _, body = text.partition("{")
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> {name} {head} {constants} {{ {body}'
    )


def kernels(name: str) -> list[tirx.PrimFunc]:
    """Return the kernels of a model as they are before they are scheduled."""
    found: list[tirx.PrimFunc] = []

    def keep(func: tirx.PrimFunc, device: CpuDevice) -> str:
        found.append(func)
        return "it is looked at only"

    target = targets.resolve("x86", 2)
    with mock.patch.object(apply, "plan_prim_func", keep):
        pipeline.lower(import_model(model(name)).mod, target, fusion="stitch", threads=2)
    return found
