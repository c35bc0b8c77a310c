"""Products one behind the other in one launch: attention, a product of normalised rows, an MLP."""

from __future__ import annotations

import pytest
from tvm import te, tirx

from support.cuda.attention import attention
from support.cuda.checked import planned, wrong
from support.cuda.machine_code import machine_code, toolkit


def attention_in_floats(queries: int, keys: int, size: int) -> tirx.PrimFunc:
    """Return exp(q @ k.T) @ v of halves that the model itself has widened: floats leave it."""
    q, k, v = (
        te.placeholder((n, size), "float16", name)
        for n, name in ((queries, "q"), (keys, "k"), (keys, "v"))
    )
    r, j = te.reduce_axis((0, size), "r"), te.reduce_axis((0, keys), "j")
    scores = te.compute(
        (queries, keys),
        lambda i, c: te.sum(q[i, r].astype("float32") * k[c, r].astype("float32"), r),
        "scores",
    )
    power = te.compute(scores.shape, lambda i, c: te.exp(scores[i, c] * 0.1), "power")
    out = te.compute(
        (queries, size), lambda i, d: te.sum(power[i, j] * v[j, d].astype("float32"), j), "out"
    )
    return te.create_prim_func([q, k, v, out])


def normalised_rows(m: int, k: int, n: int) -> tirx.PrimFunc:
    """Return (x - mean of its row) @ w."""
    x, w = te.placeholder((m, k), name="x"), te.placeholder((k, n), name="w")
    j, r = te.reduce_axis((0, k), "j"), te.reduce_axis((0, k), "r")
    mean = te.compute((m,), lambda i: te.sum(x[i, j] / k, j), "mean")
    rows = te.compute((m, k), lambda i, c: te.exp(x[i, c] - mean[i]), "rows")
    return te.create_prim_func(
        [x, w, te.compute((m, n), lambda i, c: te.sum(rows[i, r] * w[r, c], r), "out")]
    )


def mlp(m: int, k: int, hidden: int, n: int) -> tirx.PrimFunc:
    """Return relu(x @ a) @ b."""
    x, a = te.placeholder((m, k), name="x"), te.placeholder((k, hidden), name="a")
    b, r, t = (
        te.placeholder((hidden, n), name="b"),
        te.reduce_axis((0, k)),
        te.reduce_axis((0, hidden)),
    )
    h = te.compute((m, hidden), lambda i, c: te.sum(x[i, r] * a[r, c], r), "h")
    kept = te.compute((m, hidden), lambda i, c: te.max(h[i, c], tirx.const(0.0)), "kept")
    out = te.compute((m, n), lambda i, c: te.sum(kept[i, t] * b[t, c], t), "out")
    return te.create_prim_func([x, a, b, out])


CASES = [
    pytest.param(lambda: attention(2, 64, 64, 32), id="attention"),
    pytest.param(lambda: attention(3, 37, 67, 40), id="odd-attention"),
    pytest.param(lambda: attention(2, 64, 64, 32, causal=True), id="causal-attention"),
    pytest.param(lambda: attention(2, 64, 96, 64, "float16"), id="attention-of-halves"),
    pytest.param(lambda: attention(1, 48, 80, 64, "bfloat16"), id="attention-of-bfloats"),
    pytest.param(lambda: attention(1, 37, 67, 40, "float16"), id="odd-attention-of-halves"),
    pytest.param(lambda: attention_in_floats(64, 96, 64), id="floats-of-halves"),
    pytest.param(lambda: normalised_rows(70, 96, 48), id="normalised-rows"),
    pytest.param(lambda: mlp(24, 32, 48, 32), id="mlp"),
]


@pytest.mark.long(every=6)
@pytest.mark.parametrize("made", CASES)
def test_products_behind_each_other_are_right_in_one_launch(made):
    gpu = planned(made())
    assert len(gpu.plan.launches()) == 1
    assert wrong(made(), gpu, seed=5, orders=2) is None


@pytest.mark.parametrize("keys", [128, 197])
def test_scores_never_leave_the_block(keys):
    plan = planned(attention(4, keys, keys, 64, "float16")).plan
    (phase,) = plan.phases
    assert not plan.workspace
    assert sum(axis.serial for axis in phase.axes) == 2
    assert phase.has_fragments()


@pytest.mark.skipif(toolkit() is None, reason="nvcc's wheels are not installed (issue 26)")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_nvcc_spills_nothing_of_attention(dtype):
    (kernel,) = planned(attention(12, 128, 128, 64, dtype)).made.kernels
    assert machine_code(kernel.source).spilled == 0


def halves_behind_each_other(m: int, k: int, hidden: int, n: int) -> tirx.PrimFunc:
    """Return (x @ a) @ b of float16, as two convolutions of a bottleneck are."""
    x, a, b = (
        te.placeholder(shape, "float16", name)
        for name, shape in (("x", (m, k)), ("a", (k, hidden)), ("b", (hidden, n)))
    )
    r, t = te.reduce_axis((0, k)), te.reduce_axis((0, hidden))
    h = te.compute((m, hidden), lambda i, c: te.sum(x[i, r] * a[r, c], r), "h")
    return te.create_prim_func(
        [x, a, b, te.compute((m, n), lambda i, c: te.sum(h[i, t] * b[t, c], t), "out")]
    )


def test_a_product_of_a_product_is_right():
    func = halves_behind_each_other(128, 96, 32, 96)
    assert wrong(func, planned(func), seed=4) is None
