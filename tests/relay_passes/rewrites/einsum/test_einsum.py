"""Einsums of two operands are products of matrices, as few and as fast as if written so."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from zoo.graph import Graph

import tvm_stitch
from relay_passes.transform import ProductsOfEinsum
from support.kernels import stitch_case as sc
from support.models import relax_models
from tvm_stitch.build import Request, lower

Shape = tuple[int, ...]
ROLES = ("batch", "left", "right", "left alone", "right alone", "depth")


def module(
    equation: str, *shapes: Sequence, dtype: str = "float32", inputs: int | None = None
) -> tvm.IRModule:
    """Return an einsum of parameters, of which those from `inputs` on are weights."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{n}", relax.TensorType(s, dtype)) for n, s in enumerate(shapes)]
    attrs = {} if inputs is None else {"num_input": inputs}
    with builder.function("main", params, attrs=attrs):
        with builder.dataflow():
            made = builder.emit_output(relax.op.einsum(params, equation))
        builder.emit_func_output(made)
    return builder.finalize()


def operators(mod: tvm.IRModule) -> list[str]:
    bindings = [binding for block in mod["main"].body.blocks for binding in block.bindings]
    return [b.value.op.name.removeprefix("relax.") for b in bindings if hasattr(b.value, "op")]


@pytest.mark.parametrize(
    ("equation", "shapes", "wanted"),
    [
        ("bhlk,bhtk->bhlt", [(1, 3, 64, 16), (1, 3, 64, 16)], "permute_dims matmul"),
        ("bhlt,bhtv->bhlv", [(1, 3, 64, 64), (1, 3, 64, 16)], "matmul"),
        ("ij , jk", [(5, 6), (6, 7)], "matmul"),
        ("ij,jk->ki", [(5, 6), (6, 7)], "matmul permute_dims"),
        ("km,nk->nm", [(6, 5), (7, 6)], "matmul"),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)], "matmul"),
        ("...ij,...jk->...ik", [(5, 2, 3), (1, 3, 4)], "reshape matmul"),
        ("...ij,...jk->...ik", [(2, 3), (5, 3, 4)], "matmul"),
        ("i...j,jk->i...k", [(5, 2, 3, 4), (4, 6)], "matmul"),
        ("ij,bjk->bik", [(2, 3), (5, 3, 4)], "matmul"),
        ("bhwc,hkc->bhwk", [(2, 5, 6, 7), (5, 3, 7)], "permute_dims matmul"),
        ("ibh,hnd->ibnd", [(4, 2, 6), (6, 3, 5)], "reshape matmul reshape"),
        ("ibnd,hnd->ibh", [(4, 2, 3, 5), (6, 3, 5)], "reshape permute_dims reshape matmul"),
        ("oc,nchw->nohw", [(3, 4), (2, 4, 5, 6)], "reshape matmul reshape"),
        ("kn,k->n", [(6, 5), (6,)], "reshape matmul reshape"),
        ("ijk,jl->il", [(2, 3, 4), (3, 5)], "sum matmul"),
    ],
)
def test_no_more_is_moved_than_must_be(equation, shapes, wanted):
    mod = module(equation, *shapes)
    before = mod.script()
    made = ProductsOfEinsum()(mod)
    assert sorted(operators(made)) == sorted(wanted.split())
    assert mod.script() == before
    tvm.ir.assert_structural_equal(ProductsOfEinsum()(made), made)


@pytest.mark.parametrize(
    ("equation", "shapes", "given_", "reason"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], {"dtype": "int32"}, "of int32"),
        ("ii,ij->ij", [(3, 3), (3, 4)], {}, "repeat"),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], {}, "3 operands"),
        ("ij->ji", [(2, 3)], {}, "1 operands"),
        ("i,j->ij", [(2,), (3,)], {}, "extents [] and []"),
        ("ij,ij->ij", [(2, 3), (2, 3)], {}, "extents [] and []"),
        ("ij,jk->ik", [(2, 1), (1, 3)], {}, "extents [1] and [1]"),
        ("ij,jk->ik", [(2, 1), (3, 4)], {}, "extents [1] and [3]"),
        ("ij,ij->", [(2, 3), (2, 3)], {}, "a single sum"),
        ("ij,jk->ik", [(2, 0), (0, 4)], {}, "no elements"),
        ("ij,jk->ik", [(tirx.Var("n", "int64"), 3), (3, 4)], {}, "unknown"),
        ("...i,...i->i", [(2, 3), (2, 3)], {}, "no plain meaning"),
        ("ijk,jl->il", [(2, 3, 4), (3, 5)], {"dtype": "float16"}, "halves"),
        ("km,kn->mn", [(6, 5), (6, 7)], {}, "has lanes"),
    ],
)
def test_others_are_left_alone_and_it_is_said_why(equation, shapes, given_, reason, caplog):
    mod = module(equation, *shapes, **given_)
    with caplog.at_level(logging.DEBUG):
        tvm.ir.assert_structural_equal(ProductsOfEinsum()(mod), mod)
    assert reason in caplog.text


def test_a_tuple_of_operands_that_has_a_name_is_looked_into():
    def emit(builder: relax.BlockBuilder, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        both = builder.emit(relax.Tuple([x, y]))
        return builder.emit(relax.op.einsum(both, "ij,kj->ik"))

    mod = relax_models.module(emit, *relax_models.arrays((5, 6), (7, 6)))
    assert operators(ProductsOfEinsum()(mod))[-2:] == ["permute_dims", "matmul"]


@st.composite
def einsums(draw: st.DrawFn) -> tuple[str, list[Shape]]:
    """Draw an equation that contracts an axis, and extents."""
    roles = ["depth", *draw(st.lists(st.sampled_from(ROLES), min_size=1, max_size=5))]
    letters = draw(st.permutations("abcdXYZ"))
    extents = [draw(st.integers(1, 7)) for _ in roles]
    dots = draw(st.none() | st.lists(st.sampled_from([2, 3, 5]), max_size=2))
    sides, shapes = [], []
    for side in ("left", "right"):
        axes = [n for n, role in enumerate(roles) if role in ("batch", "depth") or side in role]
        axes = draw(st.permutations(axes[: 5 - len(dots or ())]))
        term, shape = [letters[n] for n in axes], [extents[n] for n in axes]
        if dots is not None:
            place = draw(st.integers(0, len(term)))
            term.insert(place, "...")
            shape[place:place] = [draw(st.sampled_from([1, extent, extent])) for extent in dots]
        sides.append("".join(term))
        shapes.append(tuple(shape))
    equation, given_ = ",".join(sides), set("".join(sides))
    if draw(st.booleans()):
        return equation, shapes
    result = [letter for letter, role in zip(letters, roles, strict=False)
              if letter in given_ and role in ("batch", "left", "right")]  # fmt: skip
    result = draw(st.permutations(result + ["..."] * (dots is not None)))
    return f"{equation}->{''.join(result)}", shapes


@pytest.mark.long(every=2)
@settings(max_examples=3, deadline=None)
@given(several=st.lists(einsums(), min_size=8, max_size=8), weights=st.booleans())
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_einsums_of_any_axes_are_right(dtype, several, weights):
    g, expected, inputs = Graph("einsums", dtype=dtype), {}, {}
    rng = np.random.default_rng()
    for number, (equation, shapes) in enumerate(several):
        names = [f"x{number}", f"w{number}"]
        arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
        as_weight = weights and number % 2
        inputs |= dict(zip(names[: 2 - as_weight], arrays, strict=False))
        g.input(names[0], shapes[0])
        (g.initializer if as_weight else g.input)(names[1], arrays[1] if as_weight else shapes[1])
        y, want = f"y{number}", np.einsum(equation, *(a.astype("f8") for a in arrays))
        g.output(g.op("Einsum", *names, equation=equation), y, want.shape)
        expected[y] = want
    sc.assert_close(tvm_stitch.compile(g.model(), threads=2).run(inputs), expected, sc.BOUND[dtype])


@pytest.mark.parametrize("sizes", [(64, 64, 16), (197, 197, 32), (50, 31, 64)])
def test_queries_by_keys_are_no_fallback(sizes):
    rows, keys, depth = sizes
    g = Graph("scores")
    q, k = g.input("q", (1, 3, rows, depth)), g.input("k", (1, 3, keys, depth))
    y = g.op("Einsum", q, k, equation="bhlk,bhtk->bhlt")
    g.output(y, "y", (1, 3, rows, keys))
    report = tvm_stitch.explain(g.model(), threads=2)
    assert report.fallbacks == 0


def attention(scores: str, weighted: str, shape: Shape, written: bool) -> Graph:
    """Return attention of equal queries, keys and values, as einsums or as products."""
    g = Graph("attention")
    q, k, v = (g.input(name, shape) for name in "qkv")
    heads = [scores.index(a) for a in "bh"]
    row, depth = scores.index("l"), scores.index("k")
    if not written:
        q, v = (g.op("Transpose", x, perm=[*heads, row, depth]) for x in (q, v))
        k = g.op("Transpose", k, perm=[*heads, depth, row])
    s = g.op("Einsum", q, k, equation=scores) if written else g.op("MatMul", q, k)
    s = g.op("Softmax", g.op("Mul", s, g.constant(0.2)), axis=-1)
    y = g.op("Einsum", s, v, equation=weighted) if written else g.op("MatMul", s, v)
    if not written:
        back = {"b": 0, "h": 1, "l": 2, "k": 3}
        y = g.op("Transpose", y, perm=[back[a] for a in scores[:4]])
    g.output(y, "y", shape)
    return g


@pytest.mark.parametrize(
    ("scores", "weighted", "shape"),
    [
        ("bhlk,bhtk->bhlt", "bhlt,bhtk->bhlk", (1, 4, 197, 32)),
        ("blhk,bthk->bhlt", "bhlt,bthk->blhk", (2, 64, 4, 32)),
        ("lbhk,tbhk->bhlt", "bhlt,tbhk->lbhk", (128, 1, 8, 64)),
    ],
)
def test_attention_in_einsums_is_fused_as_attention_in_products(scores, weighted, shape):
    reports = [
        tvm_stitch.explain(attention(scores, weighted, shape, written).model(), threads=2)
        for written in (True, False)
    ]
    assert reports[0].kernels == reports[1].kernels
    assert reports[0].fallbacks == 0
    inputs = {n: np.random.default_rng().standard_normal(shape).astype("f4") for n in "qkv"}
    got = tvm_stitch.compile(attention(scores, weighted, shape, True).model(), threads=2)
    q, k, v = (array.astype("f8") for array in inputs.values())
    s = np.exp(np.einsum(scores, q, k) * 0.2)
    expected = np.einsum(weighted, s / s.sum(-1, keepdims=True), v)
    sc.assert_close(got.run(inputs), {"y": expected}, 1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes", "weight"),
    [
        pytest.param("ibh,hnd->ibnd", [(33, 2, 64), (64, 4, 16)], 1, id="heads"),
        pytest.param("ibnd,hnd->ibh", [(33, 2, 4, 16), (64, 4, 16)], 1, id="joined"),
        pytest.param("oc,nc->no", [(64, 48), (33, 48)], 0, id="in-front"),
    ],
)
def test_a_weight_is_packed_once(equation, shapes, weight):
    g, rng = Graph("weight"), np.random.default_rng()
    arrays = [rng.standard_normal(shape).astype("f4") for shape in shapes]
    names = [
        g.initializer(f"x{n}", a) if n == weight else g.input(f"x{n}", a.shape)
        for n, a in enumerate(arrays)
    ]
    expected = np.einsum(equation, *(array.astype("f8") for array in arrays))
    g.output(g.op("Einsum", *names, equation=equation), "y", expected.shape)
    low = lower(Request(g.model(), threads=2))
    assert any("packed_matmul" in v.name_hint for v in low.mod.get_global_vars())
    assert low.report.weight_bytes == 4 * math.prod(shapes[weight])
    x = {f"x{1 - weight}": arrays[1 - weight]}
    sc.assert_close(tvm_stitch.compile(g.model(), threads=2).run(x), {"y": expected}, 1e-5)


def test_in_a_pipeline_a_constant_is_laid_out_and_packed():
    x, weight = relax_models.arrays((33, 64), (48, 64))

    def emit(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        return builder.emit(relax.op.einsum([x, relax.const(weight)], "mk,nk->mn"))

    mod = relax_models.module(emit, x)
    assert operators(ProductsOfEinsum()(mod)) == ["matmul"]
    executable = tvm.compile(mod, relax_models.cpu(), relax_pipeline="tvm_stitch")
    (made,) = relax_models.run(executable, relax_models.Relaxed(mod, (x,), ()))
    expected = x.astype("f8") @ weight.T
    assert np.abs(made - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ij,jk->ik", [(2, 0), (0, 3)]), ("ij,kj->", [(2, 0), (3, 0)]), ("ij->i", [(5, 0)]),
     ("ij,jk->ik", [(0, 2), (2, 3)])],
)  # fmt: skip
def test_a_sum_of_nothing_is_zero(equation, shapes, dtype):
    """TVM left what was in memory."""
    g = Graph("nothing", dtype=dtype)
    names = [g.input(f"x{n}", shape) for n, shape in enumerate(shapes)]
    expected = np.einsum(equation, *(np.zeros(shape, dtype) for shape in shapes))
    g.output(g.op("Einsum", *names, equation=equation), "y", expected.shape)
    inputs = {name: np.zeros(shape, dtype) for name, shape in zip(names, shapes, strict=True)}
    got = tvm_stitch.compile(g.model(), threads=2).run(inputs)["y"]
    np.testing.assert_array_equal(got, expected, strict=True)


def test_it_spends_fuel():
    g = Graph("fuel")
    y = g.op("Einsum", g.input("x", (5, 6)), g.input("w", (7, 6)), equation="ij,kj->ik")
    g.output(y, "y", (5, 7))
    assert lower(Request(g.model(), threads=2)).fuel.spent[0].name == "ProductsOfEinsum"
    told = tvm_stitch.explain(g.model(), threads=2, fuel=1)
    assert told.last_rewrite == "ProductsOfEinsum at Einsum '/Einsum'"
    rng = np.random.default_rng()
    inputs = {n: rng.standard_normal(s).astype("f4") for n, s in (("x", (5, 6)), ("w", (7, 6)))}
    expected = inputs["x"].astype("f8") @ inputs["w"].T
    got = tvm_stitch.compile(g.model(), threads=2, fuel=0).run(inputs)
    sc.assert_close(got, {"y": expected}, 1e-5)
