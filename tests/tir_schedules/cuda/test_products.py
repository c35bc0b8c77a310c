"""Products and convolutions: operands through tiles of shared memory, results in registers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import partial

import pytest
from tvm import te, tirx

from support.cuda.checked import H200, planned, wrong
from support.cuda.machine_code import machine_code, toolkit
from tir_schedules.cuda import template
from tir_schedules.cuda.decide.candidates import candidates
from tir_schedules.cuda.decide.numbered import Numbers
from tir_schedules.cuda.facts.reading import reading_of
from tir_schedules.cuda.legal.phase import build_phase
from tir_schedules.cuda.plan.decisions import Decisions, PartDecisions
from tir_schedules.cuda.plan.shared import fits_static
from tir_schedules.cuda.plan.tile import Tile
from tir_schedules.decisions import from_json, to_json, with_knob
from tir_schedules.kernel_ir.parse import read


def product(m: int, n: int, k: int, dtype: str = "float32", turned: bool = False) -> tirx.PrimFunc:
    """Return relu(a @ b + c), b transposed if it is `turned`."""
    a = te.placeholder((m, k), dtype, "a")
    b = te.placeholder((n, k) if turned else (k, n), dtype, "b")
    c, r = te.placeholder((n,), dtype, "c"), te.reduce_axis((0, k), "r")
    p = te.compute((m, n), lambda i, j: te.sum(a[i, r] * (b[j, r] if turned else b[r, j]), r), "p")
    out = te.compute((m, n), lambda i, j: te.max(p[i, j] + c[j], tirx.const(0, dtype)), "out")
    return te.create_prim_func([a, b, c, out])


def products(batch: int, m: int, n: int, k: int) -> tirx.PrimFunc:
    a, b = te.placeholder((batch, m, k), name="a"), te.placeholder((batch, k, n), name="b")
    r = te.reduce_axis((0, k), "r")
    out = te.compute((batch, m, n), lambda q, i, j: te.sum(a[q, i, r] * b[q, r, j], r), "out")
    return te.create_prim_func([a, b, out])


def convolution(batch: int, inputs: int, size: int, outputs: int, window: int) -> tirx.PrimFunc:
    """Return a padded convolution whose image stays as large."""
    x = te.placeholder((batch, inputs, size, size), name="x")
    w = te.placeholder((outputs, inputs, window, window), name="w")
    pad, zero = window // 2, tirx.const(0, "float32")

    def padded(n: te.Var, c: te.Var, y: te.Var, z: te.Var) -> te.Expr:
        inside = tirx.all(y >= pad, y < size + pad, z >= pad, z < size + pad)
        return tirx.if_then_else(inside, x[n, c, y - pad, z - pad], zero)

    wide = te.compute((batch, inputs, size + 2 * pad, size + 2 * pad), padded, "wide")
    c, i, j = (te.reduce_axis((0, extent)) for extent in (inputs, window, window))
    out = te.compute(
        (batch, outputs, size, size),
        lambda n, o, y, z: te.sum(wide[n, c, y + i, z + j] * w[o, c, i, j], axis=[c, i, j]),
        "out",
    )
    return te.create_prim_func([x, w, out])


def channels_last(size: int, inputs: int, outputs: int, window: int, dtype: str) -> tirx.PrimFunc:
    """Return a padded convolution of halves whose channels lie side by side, added up in floats."""
    x = te.placeholder((2, size, size, inputs), dtype, "x")
    w = te.placeholder((window, window, inputs, outputs), dtype, "w")
    pad, zero, wide = window // 2, tirx.const(0, dtype), size + window - 1

    def padded(n: te.Var, y: te.Var, z: te.Var, c: te.Var) -> te.Expr:
        inside = tirx.all(y >= pad, y < size + pad, z >= pad, z < size + pad)
        return tirx.if_then_else(inside, x[n, y - pad, z - pad, c], zero)

    image = te.compute((2, wide, wide, inputs), padded, "image")
    i, j, c = (te.reduce_axis((0, extent)) for extent in (window, window, inputs))

    def term(n: te.Var, y: te.Var, z: te.Var, o: te.Var) -> te.Expr:
        factors = image[n, y + i, z + j, c], w[i, j, c, o]
        return factors[0].astype("float32") * factors[1].astype("float32")

    out = te.compute((2, size, size, outputs), lambda *at: te.sum(term(*at), [i, j, c]), "out")
    kept = te.compute(
        out.shape, lambda *at: te.max(out(*at), tirx.const(0.0)).astype(dtype), "kept"
    )
    return te.create_prim_func([x, w, kept])


def normalised(m: int, n: int, k: int) -> tirx.PrimFunc:
    """Return rows of a @ b over their largest magnitude: a block has whole rows."""
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    r, j = te.reduce_axis((0, k), "r"), te.reduce_axis((0, n), "j")
    p = te.compute((m, n), lambda i, c: te.sum(a[i, r] * b[r, c], r), "p")
    most = te.compute((m,), lambda i: te.max(te.abs(p[i, j]), j), "most")
    return te.create_prim_func([a, b, te.compute((m, n), lambda i, c: p[i, c] / most[i], "out")])


CASES = [
    (product, (128, 96, 64)),
    (product, (200, 136, 40, "float32", True)),
    (product, (131, 67, 101)),
    (product, (64, 80, 64, "float16")),
    (product, (66, 72, 60, "bfloat16", True)),
    (product, (48, 64, 96, "float64")),
    (products, (3, 40, 60, 64)),
    (convolution, (2, 16, 17, 36, 3)),
    (convolution, (1, 32, 14, 32, 5)),
    (normalised, (40, 64, 128)),
]


@pytest.mark.long(every=6)
@pytest.mark.parametrize(
    ("made", "shape"),
    CASES,
    ids=lambda value: value.__name__ if isinstance(value, Callable) else str(value),
)
def test_a_product_is_right_in_one_launch_with_what_stands_behind_it(made, shape):
    func = made(*shape)
    gpu = planned(func)
    (phase,) = gpu.plan.phases
    assert len([n for n in phase.shared if isinstance(n.stage.out, Tile)]) == 2, str(gpu.plan)
    assert wrong(func, gpu, seed=sum(n for n in shape if isinstance(n, int)), orders=1) is None


@pytest.mark.parametrize("ahead", [True, False])
def test_tiles_may_be_loaded_a_step_ahead(ahead):
    func = convolution(1, 16, 12, 32, 3)
    kernel = read(func)
    decisions = template.default_decisions(kernel, H200)
    gpu = planned(func, with_knob(decisions, "phases.0.ahead", ahead))
    assert len(gpu.plan.phases[0].tiles_ahead()) == (2 if ahead else 0)
    assert wrong(func, gpu, seed=2) is None


def fragments(func: tirx.PrimFunc) -> list[Decisions]:
    """Return the decisions by which tensor cores compute a kernel."""
    space = reading_of(read(func)).space()
    ways = (way for way in candidates(space, Numbers(space)) if any(n.warps for n in way.nests))
    return [Decisions((w,)) for w in ways if not isinstance(build_phase(space, w, H200), str)]


@pytest.mark.long(every=6)
@pytest.mark.parametrize(
    "func",
    [
        product(64, 80, 64, "float16"),
        product(70, 100, 96, "bfloat16", turned=True),
        product(40, 130, 64, "float16"),
        product(70, 66, 75, "float16"),
        product(66, 72, 200, "bfloat16", turned=True),
    ],
    ids=["float16", "bfloat16", "ragged", "ragged terms", "ragged lines of terms"],
)
def test_tensor_cores_add_up_halves_in_float32(func):
    """Behind the last term the tiles of both operands have zeros."""
    ways = fragments(func)
    for decisions in random.Random(0).sample(ways, 3):
        gpu = planned(func, from_json(Decisions, to_json(decisions)))
        assert wrong(func, gpu, seed=5, orders=2) is None, str(gpu.plan)


@pytest.mark.long(every=2)
@pytest.mark.parametrize(
    "func", [product(256, 128, 64, "bfloat16"), product(130, 250, 64, "float16", turned=True)]
)
def test_a_result_beyond_static_memory_takes_the_place_of_tiles(func):
    made = map(partial(planned, func), fragments(func))
    large = list(itertools.islice((m for m in made if not fits_static(m.plan.phases[0])), 2))
    assert len(large) == 2
    for gpu in large:
        assert "__shared__ alignas" not in gpu.made.kernels[0].source  # as static arrays are
        assert wrong(func, gpu, seed=3, orders=2) is None, str(gpu.plan)


@pytest.mark.parametrize(
    "func", [product(64, 64, 12, "float16"), product(64, 64, 64), products(2, 64, 64, 64)]
)
def test_of_other_products_there_are_no_fragments(func):
    """Of fewer terms than a fragment has, and of floats."""
    assert fragments(func) == []


@pytest.mark.skipif(
    toolkit() is None, reason="issue 26: nvcc's wheels are not installed; pip install '.[cuda]'"
)
def test_a_large_product_of_halves_goes_to_tensor_cores():
    gpu = planned(product(4096, 1024, 1024, "float16"))
    assert any(nest.warps for nest in gpu.plan.phases[0].nests), str(gpu.plan)
    made = machine_code(gpu.made.kernels[0].source)
    assert made.count("HMMA") >= 2 * made.count("LDSM")  # else shared memory is the limit
    # Of both operands vectors are stored, which no halves are put together for.
    assert made.count("STS", "U16") == 0 and made.count("PRMT") < made.count("HMMA") / 2
    assert made.spilled == made.count("LDL") == 0


@pytest.mark.long(every=2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_padded_image_goes_to_tensor_cores_in_vectors(dtype):
    func = channels_last(9, 32, 40, 3, dtype)
    gpu = planned(func)
    (phase,) = gpu.plan.phases
    assert phase.has_fragments() and len(phase.tiles_ahead()) == 2, str(gpu.plan)
    assert wrong(func, gpu, seed=4, orders=2) is None, str(gpu.plan)
    if toolkit() is not None:
        made = machine_code(gpu.made.kernels[0].source)
        assert made.count("LDG") == made.count("LDG", "128")


@pytest.mark.skipif(
    toolkit() is None, reason="issue 26: nvcc's wheels are not installed; pip install '.[cuda]'"
)
def test_a_register_tile_keeps_its_results_and_shares_its_loads():
    gpu = planned(product(1024, 1024, 1024))
    (kernel,) = gpu.made.kernels
    made = machine_code(kernel.source)
    assert made.spilled == made.count("LDL") == 0
    assert made.count("FFMA") >= 3 * made.count("LDS")
    assert made.count("LDG") == made.count("LDG", "128")


@pytest.mark.long(every=2)
@pytest.mark.parametrize(("k", "dtype"), [(5003, "float32"), (4099, "float16")])
def test_a_long_sum_of_products_goes_in_ragged_parts(k, dtype):
    """Behind the end of the last part a tile of each operand has zeros."""
    func = product(31, 33, k, dtype)
    gpu = planned(func)
    (part,) = default_parts(func)
    assert k % part.count and len(gpu.plan.launches()) == 2
    assert len([n for p in gpu.plan.phases for n in p.shared if isinstance(n.stage.out, Tile)]) == 2
    assert wrong(func, gpu, seed=k) is None


def default_parts(func: tirx.PrimFunc) -> tuple[PartDecisions, ...]:
    decisions = template.default_decisions(read(func), H200)
    assert isinstance(decisions, Decisions)
    return decisions.parts
