"""Kernels that write a result over an operand: only where no element is read afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx

from relay_passes.transform import StitchOps
from support.kernels import stitch_case as sc
from support.kernels.scheduled import SMALL_CACHES, run
from tir_schedules import ApplyStitchSchedules
from tir_schedules.analysis.iteration_space import Atom
from tir_schedules.cpu.facts.memory.overwrite import refuse_overwrite
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func
from tir_schedules.kernel_ir.expr import Tensor
from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model
from tvm_stitch.packing import packed
from tvm_stitch.steps import Steps

DEVICE = sc.device(2)


def split(device=DEVICE):
    """Return the device with everything cut into tiles and phases, however little work it is."""
    turns = replace(device.profile.thresholds, spread_regions=0.0, cut_regions=0.0)
    return replace(device, profile=replace(device.profile, thresholds=turns))


def planned(func: tirx.PrimFunc, device=DEVICE) -> Plan:
    plan = plan_prim_func(func, device)
    assert not isinstance(plan, str), plan
    return plan


def reason(func: tirx.PrimFunc, operand: int = 0, result: int = -1, device=DEVICE) -> str | None:
    plan = planned(func, device)
    params = plan.space.kernel.params
    return refuse_overwrite(plan, params[operand], params[result])


def pairs(plan: Plan) -> Iterator[tuple[int, int]]:
    """Yield the places of operands and results that may share memory."""
    params = plan.space.kernel.params
    made = {id(t) for t in plan.space.kernel.outputs}
    for operand, result in itertools.product(range(len(params)), repeat=2):
        if id(params[operand]) in made or id(params[result]) not in made:
            continue
        if refuse_overwrite(plan, params[operand], params[result]) is None:
            yield operand, result


def values(tensor: Tensor, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, *tensor.shape])
    if tensor.dtype.startswith(("int", "uint", "bool")):
        return rng.integers(0, 2, tensor.shape).astype(tensor.dtype)
    return rng.uniform(0.5, 2, tensor.shape).astype(tensor.dtype)


def check_pairs(func: tirx.PrimFunc, device) -> int:
    """Compare a kernel with itself in place, bit by bit; return how many pairs share memory."""
    plan = planned(func, device)
    params = plan.space.kernel.params
    arrays = [values(t, number) for number, t in enumerate(params)]
    before = [array.copy() for array in arrays]
    run(emit_plan(plan, func), *arrays)
    found = list(pairs(plan))
    for operand, result in found:
        over = [array.copy() for array in before]
        kernel = emit_plan(plan, func, {params[result]: params[operand]})
        assert len(kernel.params) == len(params) - 1
        run(kernel, *(a for number, a in enumerate(over) if number != result))
        over[result] = over[operand]
        for number, array in enumerate(over):
            expected = arrays[result] if number == operand else arrays[number]
            np.testing.assert_array_equal(array, expected)
    return len(found)


def mapped(shape, function: Callable, inputs: int = 1) -> tirx.PrimFunc:
    """Return a kernel with a result for each of what `function` gives for the inputs."""
    given = [te.placeholder(shape, "float32", f"x{n}") for n in range(inputs)]
    made = function(*given)
    return te.create_prim_func([*given, *(made if isinstance(made, tuple) else (made,))])


def summed(x: te.Tensor) -> te.Tensor:
    """Return x minus the sums of its rows."""
    rows, columns = x.shape
    k = te.reduce_axis((0, columns), "k")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), "total")
    return te.compute((rows, columns), lambda i, j: x[i, j] - total[i], "out")


def product(rows: int, depth: int, columns: int) -> tirx.PrimFunc:
    """Return relu(x @ w + r)."""
    x, w, r = (te.placeholder(s, "float32", n) for n, s in
               (("x", (rows, depth)), ("w", (depth, columns)), ("r", (rows, columns))))  # fmt: skip
    k = te.reduce_axis((0, depth), "k")
    y = te.compute((rows, columns), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "y")
    zero = tirx.const(0, "float32")
    made = te.compute((rows, columns), lambda i, j: te.max(y[i, j] + r[i, j], zero), "out")
    return te.create_prim_func([x, w, r, made])


def elementwise(x, y):
    return te.compute(x.shape, lambda *i: x(*i) * y(*i) + tirx.const(1, "float32"), "out")


def exp_then_weighted(x):
    """Return exp(x), and exp(x) minus the row's sum of x * exp(x)."""
    rows, columns = x.shape
    e = te.compute(x.shape, lambda i, j: te.exp(x[i, j]), "e")
    k = te.reduce_axis((0, columns), "k")
    total = te.compute((rows,), lambda i: te.sum(x[i, k] * e[i, k], axis=k), "total")
    return e, te.compute(x.shape, lambda i, j: e[i, j] - total[i], "out")


@pytest.mark.parametrize("device", [DEVICE, split()], ids=["whole", "split"])
def test_each_element_is_written_once_all_have_read_it(device):
    for operand in (0, 1):
        assert reason(mapped((33, 65), elementwise, 2), operand, device=device) is None
    assert reason(mapped((33, 65), summed), device=device) is None
    assert reason(product(64, 48, 64), operand=2, device=device) is None
    assert reason(mapped((7, 65), exp_then_weighted), result=2, device=device) is None


def shifted_by_data() -> tirx.PrimFunc:
    x, by = te.placeholder((64,), "float32", "x"), te.placeholder((1,), "int32", "by")
    return te.create_prim_func([x, by, te.compute((64,), lambda i: x[i + by[0]], "out")])


def shifted(x: te.Tensor) -> te.Tensor:
    zero = tirx.const(0, "float32")
    return te.compute(x.shape, lambda i: tirx.if_then_else(i < 63, x[i + 1], zero), "out")


REFUSED = {
    "shifted": (mapped((64,), shifted), "other elements"),
    "shifted-by-data": (shifted_by_data(), "other elements"),
    "transposed": (mapped((64, 64), lambda x: te.compute(x.shape, lambda i, j: x[j, i])),
                   "other elements"),
    "transposed-besides": (
        mapped((64, 64), lambda x: te.compute(x.shape, lambda i, j: x[i, j] + x[j, i])),
        "other elements"),
    "row-of-all": (mapped((64, 64), lambda x: te.compute(x.shape, lambda i, j: x[i, j] + x[0, j])),
                   "other elements"),
    "neighbour": (
        mapped((64,), lambda x: te.compute(x.shape, lambda i: x[i] + x[tirx.indexmod(i + 1, 64)])),
        "other elements"),
    "reversed": (mapped((64,), lambda x: te.compute(x.shape, lambda i: x[63 - i])),
                 "other elements"),
    "smaller": (mapped((4, 8), lambda x: te.compute((4,), lambda i: x[i, 0])), "types"),
    "another-type": (
        mapped((8,), lambda x: te.compute((8,), lambda i: x[i].astype("int32"))), "types"),
    "product-with-lanes-twice": (product(64, 48, 45), "done twice"),
    "product-whose-last-chunk-is-ragged": (product(14, 512, 500), "done twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("device", [DEVICE, split()], ids=["whole", "split"])
def test_what_may_be_read_later_is_refused(name, device):
    func, words = REFUSED[name]
    operand = 2 if name.startswith("product") else 0
    assert words in reason(func, operand, device=device)


def weighted_sum(rows: int, columns: int) -> tirx.PrimFunc:
    """Return the sum over rows of x * b, of the type of b."""
    x = te.placeholder((rows, columns), "float32", "x")
    b, k = te.placeholder((columns,), "float32", "b"), te.reduce_axis((0, rows), "k")
    made = te.compute((columns,), lambda j: te.sum(x[k, j] * b[j], axis=k), "out")
    return te.create_prim_func([x, b, made])


def test_what_a_sum_reads_with_each_term_is_refused():
    assert "a reduction reads it" in reason(weighted_sum(48, 33), operand=1)
    assert "several parts" in reason(weighted_sum(4096, 8), operand=1, device=split())


EXTRA = Atom("extra", 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lambda p, _: replace(p, tile=(*p.tile, EXTRA)), "several tiles", id="tile"),
        pytest.param(
            lambda p, g: replace(p, groups=(replace(g, dims=(EXTRA, *g.dims)),)),
            "several times", id="loop"),
        pytest.param(
            lambda p, g: replace(p, groups=(replace(g, transposed=True),)),
            "transpose overlap", id="transposed"),
    ],
)  # fmt: skip
def test_a_plan_that_comes_to_an_element_twice_is_refused(change, words):
    plan = planned(mapped((33, 65), elementwise, 2))
    (phase,) = plan.phases
    plan = replace(plan, phases=(change(phase, *phase.groups),))
    params = plan.space.kernel.params
    assert words in refuse_overwrite(plan, params[0], params[-1])


def test_what_a_later_nest_reads_again_is_refused():
    assert "once it is written" in reason(mapped((7, 65), exp_then_weighted), result=1)


def test_what_a_product_reads_is_refused():
    assert reason(product(64, 64, 64)) is not None


def test_what_is_stored_past_the_caches_is_refused():
    func = mapped((33, 65), elementwise, 2)
    assert "past the caches" in reason(func, device=SMALL_CACHES)


@pytest.mark.parametrize("barrier", [True, False])
def test_a_read_in_an_earlier_phase_needs_a_barrier(barrier):
    """Of phases that do not wait for each other one may write what another has yet to read."""

    def all_of_it(x):
        rows, columns = x.shape
        i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")
        total = te.compute((1,), lambda _: te.sum(x[i, j], axis=[i, j]), "total")
        return te.compute(x.shape, lambda i, j: total[0] * tirx.Cast("float32", i + j), "out")

    plan = planned(mapped((256, 256), all_of_it), split())
    assert len(plan.phases) > 1 and plan.parallel
    if not barrier:
        alone = [replace(p, partial=()) for p in plan.phases]
        plan = replace(plan, crossing=(), phases=tuple(alone))
    x, out = plan.space.kernel.params
    assert (refuse_overwrite(plan, x, out) is None) == barrier


EXTENTS = (1, 2, 3, 5, 8, 13, 16, 17, 33, 45, 64, 77)
KINDS = ("elementwise", "rows", "exp", "columns", "product", "blend", "transposed")


def drawn(kind: str, rows: int, columns: int, depth: int) -> tirx.PrimFunc:
    shape = (rows, columns)
    if kind == "elementwise":
        return mapped(shape, elementwise, 2)
    if kind == "rows":
        return mapped(shape, lambda x, y: summed(elementwise(x, y)), 2)
    if kind == "exp":
        return mapped(shape, exp_then_weighted)
    if kind == "product":
        return product(rows, depth, columns)
    if kind == "transposed":
        y = te.placeholder((columns, rows), "float32", "y")
        x = te.placeholder(shape, "float32", "x")
        made = te.compute(shape, lambda i, j: x[i, j] * y[j, i], "out")
        return te.create_prim_func([x, y, made])
    if kind == "blend":  # a result that takes its operand's other half from elsewhere

        def blended(x, y):
            return te.compute(
                shape, lambda i, j: tirx.if_then_else(j < columns // 2, x[i, j], y[i, j])
            )

        return mapped(shape, blended, 2)

    def by_column(x):
        k = te.reduce_axis((0, rows), "k")
        largest = te.compute((columns,), lambda j: te.max(x[k, j], axis=k), "largest")
        return te.compute(shape, lambda i, j: x[i, j] / largest[j], "out")

    return mapped(shape, by_column)


@pytest.mark.long
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(EXTENTS),
    st.sampled_from(EXTENTS),
    st.sampled_from(EXTENTS),
    st.booleans(),
)
def test_a_kernel_in_place_gives_the_same(kind, rows, columns, depth, is_split):
    check_pairs(drawn(kind, rows, columns, depth), split() if is_split else DEVICE)


def kernels(model, device) -> list[tirx.PrimFunc]:
    """Return the kernels of a model, fused and not scheduled."""
    target = targets.resolve("x86", device.threads)
    mod = packed(import_model(model), sc.device()).mod
    fuse = pipeline._fuse("stitch", StitchOps(device), ApplyStitchSchedules(device))
    (*steps, (last, _)) = (*pipeline._legalize(), *fuse)
    assert last == "ApplyStitchSchedules"
    with target:
        mod = Steps().run(steps, mod)
    return [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "layers", "image", "is_split"),
    [("resnet50", 2, 48, False), ("mobilenetv2", 6, 64, True), ("vit", 1, 32, True)],
)
def test_residuals_of_products_in_place_give_the_same(name, layers, image, is_split):
    device = split() if is_split else DEVICE
    model = sc.zoo.model(name, layers=layers, image=image)
    assert sum(check_pairs(func, device) for func in kernels(model, device))


@pytest.mark.long(every=3)
@pytest.mark.parametrize(
    "case",
    [sc.Case(name, (6, 5, 45)) for name in ("softmax", "layernorm", "residual_layernorm")]
    + [sc.Case("softmax", (5, 45, 7), options={"axis": 1})],
    ids=lambda case: case.id,
)
@pytest.mark.parametrize("device", [DEVICE, split()], ids=["whole", "split"])
def test_normalisations_in_place_give_the_same(case, device):
    assert sum(check_pairs(func, device) for func in kernels(case.model(), device))
