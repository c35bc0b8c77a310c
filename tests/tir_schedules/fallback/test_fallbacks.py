"""Kernels that the template declines: which they are, and that they take NumPy's addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from onnx import TensorProto, helper
from tvm import ir, relax, tirx
from tvm.relax import op
from tvm.script import tirx as T

import tvm_stitch
from support.frontend.fallback_list import RELAX, declined
from support.models import relax_models as rm
from support.models.runtime import ParallelSteps, onnx_model
from tir_schedules.fallback.alignment import drop_alignment
from tvm_stitch import pipeline


@dataclass(frozen=True)
class Operator:
    """One Relax operator, and arrays for its parameters."""

    emit: Callable[..., relax.Expr]
    inputs: tuple[np.ndarray, ...]

    def module(self) -> tvm.IRModule:
        return rm.module(lambda _, *x: self.emit(*x), *self.inputs)


RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 64)).astype("f4")
IDS = RNG.permutation(8).astype("i8")
PLACES = np.broadcast_to(IDS[:, None], (8, 64)).copy()
IMAGE = RNG.standard_normal((1, 4, 16, 16)).astype("f4")
BOXES = RNG.uniform(size=(1, 16, 6)).astype("f4")
SHARES = np.cumsum(np.full((8, 64), 1 / 64, "f4"), axis=1)
DECLINED = {
    "bucketize": Operator(op.bucketize, (X, np.sort(X[0]))),
    "get_valid_counts": Operator(lambda x: op.vision.get_valid_counts(x, 0.5), (BOXES,)),
    "max_pool2d_backward": Operator(
        lambda grad, x: op.grad.max_pool2d_backward(grad, x, (2, 2), (2, 2)),
        (IMAGE[:, :, ::2, ::2].copy(), IMAGE),
    ),
    "median": Operator(lambda x: op.median(x, 1), (X,)),
    "multinomial_from_uniform": Operator(
        op.multinomial_from_uniform,
        (SHARES, RNG.uniform(size=(8, 1)).astype("f4"), IDS[:, None].copy()),
    ),
    "non_max_suppression": Operator(
        op.vision.non_max_suppression,
        (BOXES, np.array([16], "i4"), np.arange(16, dtype="i4")[None]),
    ),
    "scatter_elements": Operator(
        lambda x, i, y: op.scatter_elements(x, i, y, 0, "max"), (X, PLACES, -X)
    ),
    "scatter_nd": Operator(
        lambda x, i, y: op.scatter_nd(x, i, y, "min"), (X, IDS[:, None].copy(), -X)
    ),
    "take_backward": Operator(lambda g, x, i: op.grad.take_backward(g, x, i, 0), (-X, X, IDS)),
}
# What torch.export and Relax bring that no ONNX operator of the frontend's tests becomes.
TAKEN = {
    "adaptive_avg_pool1d": Operator(lambda x: op.nn.adaptive_avg_pool1d(x, 5), (IMAGE[0],)),
    "adaptive_avg_pool2d": Operator(lambda x: op.nn.adaptive_avg_pool2d(x, 5), (IMAGE,)),
    "adaptive_avg_pool3d": Operator(lambda x: op.nn.adaptive_avg_pool3d(x, 3), (IMAGE[None],)),
    "cumprod": Operator(lambda x: op.cumprod(x, 0), (X,)),
    "cumsum": Operator(lambda x: op.cumsum(x, 0), (X,)),
    "scatter_elements": Operator(lambda x, i, y: op.scatter_elements(x, i, y, 0), (X, PLACES, -X)),
    "scatter_nd": Operator(op.scatter_nd, (X, IDS[:, None].copy(), -X)),
    "argsort": Operator(lambda x: op.argsort(x, 1), (X,)),
    "sort": Operator(lambda x: op.sort(x, 1), (X,)),
    "topk": Operator(lambda x: op.topk(x, 5, 1, "both", True, "int64"), (X,)),
    "atan2": Operator(op.atan2, (X, X)),
    "collapse_sum_to": Operator(lambda x: op.collapse_sum_to(x, (64,)), (X,)),
    "einsum": Operator(lambda x, y: op.einsum([x, y], "ij,kj->ik"), (X, X)),
    "flip": Operator(lambda x: op.flip(x, 1), (X,)),
    "floor_divide": Operator(op.floor_divide, (X, X)),
    "affine_grid": Operator(lambda x: op.image.affine_grid(x, (5, 6)), (IMAGE[:, :2, :3, 0],)),
    "grid_sample": Operator(op.image.grid_sample, (IMAGE, IMAGE[:, :2])),
    "resize3d": Operator(lambda x: op.image.resize3d(x, (8, 8, 8), layout="NCDHW"), (IMAGE[None],)),
    "index_tensor": Operator(lambda x, i: op.index_tensor(x, (i,)), (X, IDS)),
    "layout_transform": Operator(lambda x: op.layout_transform(x, lambda i, j: (j, i)), (X,)),
    "log_add_exp": Operator(op.log_add_exp, (X, X)),
    "attention": Operator(op.nn.attention, (IMAGE, IMAGE, IMAGE)),
    "conv3d_transpose": Operator(op.nn.conv3d_transpose, (IMAGE[None], IMAGE[:, :, None, :2, :2])),
    "cross_entropy": Operator(op.nn.cross_entropy_with_logits, (X, X)),
    "nll_loss": Operator(op.nn.nll_loss, (X, IDS)),
    "pad": Operator(lambda x: op.nn.pad(x, (1, 2, 3, 4)), (X,)),
    "silu": Operator(op.nn.silu, (X,)),
    "selu": Operator(op.nn.selu, (X,)),
    "softplus": Operator(op.nn.softplus, (X,)),
    "outer": Operator(op.outer, (X[0], X[1])),
    "repeat": Operator(lambda x: op.repeat(x, 3, 1), (X,)),
    "reverse_sequence": Operator(lambda x, n: op.reverse_sequence(x, n, 1, 0), (X, IDS)),
    "slice_scatter": Operator(lambda x, y: op.slice_scatter(x, y, 0, 8, 2, 0), (X, X[::2])),
    "std": Operator(lambda x: op.std(x, 1), (X,)),
    "trunc": Operator(op.trunc, (X,)),
    "multibox_transform_loc": Operator(
        op.vision.multibox_transform_loc,
        (BOXES[:, :3], BOXES.reshape(1, -1)[:, :24], BOXES[:, :6, :4]),
    ),
    "roi_align": Operator(
        lambda x, r: op.vision.roi_align(x, r, (3, 3), 1.0, 2, layout="NCHW"),
        (IMAGE, BOXES[0, :, :5]),
    ),
    "roi_pool": Operator(
        lambda x, r: op.vision.roi_pool(x, r, (3, 3), 1.0), (IMAGE, BOXES[0, :, :5])
    ),
    "avg_pool2d_backward": Operator(
        lambda grad, x: op.grad.avg_pool2d_backward(grad, x, (2, 2), (2, 2)),
        (IMAGE[:, :, ::2, ::2], IMAGE),
    ),
}
EVERY = pytest.mark.parametrize("name", DECLINED)


def _at(array: np.ndarray, offset: int) -> np.ndarray:
    """Copy `array` to the last address of its items that is at most `offset` modulo 64."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset // array.itemsize * array.itemsize
    placed = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    placed[...] = array
    return placed


def test_the_list_names_what_is_declined():
    assert {*DECLINED} == RELAX
    assert {name for name, each in DECLINED.items() if declined(each.module())} == RELAX
    assert [name for name, each in TAKEN.items() if declined(each.module())] == []


@pytest.mark.long(every=3)
@pytest.mark.parametrize("name", DECLINED)
def test_a_declined_kernel_takes_any_address_its_elements_may_have(name):
    case = DECLINED[name]
    stock = rm.run(tvm.compile(case.module(), "llvm"), rm.Relaxed(case.module(), case.inputs, ()))
    for kernel, inputs, results in _kernels(case):
        mod = tvm.IRModule({"kernel": kernel.with_attr("global_symbol", "kernel")})
        run = tvm.compile(mod, rm.cpu())["kernel"]
        last = [a.shape for a in results] == [a.shape for a in stock]
        expected = stock if last else []
        for offset in range(0, 64, min(a.itemsize for a in (*inputs, *results))):
            arrays = [_at(array, offset) for array in (*inputs, *results)]
            run(*map(tvm_ffi.from_dlpack, arrays))
            made = arrays[len(inputs) :]
            expected = expected or made
            for mine, theirs in zip(made, expected, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def _kernels(case: Operator) -> Iterator[tuple[tirx.PrimFunc, list[np.ndarray], list[np.ndarray]]]:
    """Yield the kernels of `compile` that read parameters alone, these, and room for results."""
    mod = pipeline.lower(case.module(), rm.cpu(), fusion="stitch", threads=2)[0]
    given = dict(zip(mod["main"].params, case.inputs, strict=True))
    for call in (b.value for block in mod["main"].body.blocks for b in block.bindings):
        if getattr(call.op, "name", "") == "relax.call_tir" and {*call.args[1].fields} <= {*given}:
            kind = call.ty_args[0]
            kinds = kind.fields if isinstance(kind, relax.TupleType) else [kind]
            shapes = [[int(extent) for extent in kind.shape.values] for kind in kinds]
            types = [str(kind.dtype.dtype) for kind in kinds]
            results = [np.zeros(*each) for each in zip(shapes, types, strict=True)]
            yield mod[call.args[0]], [given[a] for a in call.args[1].fields], results


def _either(then: str, otherwise: str) -> onnx.ModelProto:
    """Return y = then(x) if c, else otherwise(x): places in the columns of x."""
    branches = {}
    for branch, name in (("then_branch", then), ("else_branch", otherwise)):
        nodes = [helper.make_node(name, ["x"], [branch], axis=0, keepdims=0)]
        result = [helper.make_tensor_value_info(branch, TensorProto.INT64, [64])]
        branches[branch] = helper.make_graph(nodes, branch, [], result)
    node = helper.make_node("If", ["c"], ["y"], **branches)
    return onnx_model(
        [node], [("c", "bool", ()), ("x", "float32", (8, 64))], [("y", "int64", (64,))]
    )


def test_kernels_in_branches_take_any_address_too():
    model = tvm_stitch.compile(_either("ArgMax", "ArgMin"), threads=1)
    for offset in range(0, 64, 4):
        x = _at(X, offset)
        for chosen, expected in ((True, x.argmax(0)), (False, x.argmin(0))):
            y = model.run({"c": np.array(chosen), "x": x})["y"]
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    "passes", [pipeline.relax_pipeline, lambda: pipeline.build_pipeline(rm.cpu())]
)
def test_both_pipelines_leave_kernels_of_others_at_their_items(passes):
    with rm.cpu():
        mod = passes()(ParallelSteps)
    (kernel,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    assert [p.ty.data_alignment for p in kernel.params] == [4, 4]


def test_views_are_no_better_aligned_than_what_they_view():
    @T.prim_func(private=True, s_tir=True)
    def kernel(x: T.Buffer((4, 16), "float32"), y: T.Buffer((4, 16), "float32", align=4)):
        flat = T.decl_buffer((64,), "float32", data=x.data)
        for i in range(4):
            with T.sblock("rows"):
                vi = T.axis.spatial(4, i)
                row = T.match_buffer(x[vi, 0:16], (16,), offset_factor=1)
                for j in range(16):
                    y[vi, j] = row[j] + flat[vi * 16 + j]

    found = set()
    lowered = drop_alignment(kernel)
    seen = (ir.Var, lambda v: found.add(v.ty.data_alignment if tirx.is_buffer_var(v) else 4))
    tvm_ffi.structural_walk(lowered, seen)
    assert found == {4}
    assert drop_alignment(lowered).same_as(lowered)


def test_a_call_of_a_library_is_no_kernel_without_results():
    reasons = declined(DECLINED["median"].module())
    assert reasons == {"median": "main: sblock argsort_cpu holds more than stores"}
