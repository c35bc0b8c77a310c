"""Windows over padded images: the padding is no tensor, each position asks for itself."""

from __future__ import annotations

import pytest
from tvm import te, tirx

from support.cuda.checked import planned, wrong


def pool(
    batch: int, size: int, channels: int, window: int, stride: int, kind: str, chained: bool
) -> tirx.PrimFunc:
    """Return a padded max or sum over windows, channels last, of an image or of its square."""
    x = te.placeholder((batch, size, size, channels), name="x")
    seen, pad = x, window // 2
    if chained:
        seen = te.compute(x.shape, lambda *at: x(*at) * x(*at), "squared")
    none = tirx.min_value("float32") if kind == "max" else tirx.const(0.0)
    padded = te.compute(
        (batch, size + 2 * pad, size + 2 * pad, channels),
        lambda n, i, j, c: tirx.if_then_else(
            tirx.all(i >= pad, i < size + pad, j >= pad, j < size + pad),
            seen[n, i - pad, j - pad, c],
            none,
        ),
        "padded",
    )
    a, b, made = te.reduce_axis((0, window)), te.reduce_axis((0, window)), -(-size // stride)
    out = te.compute(
        (batch, made, made, channels),
        lambda n, i, j, c: getattr(te, kind)(
            padded[n, i * stride + a, j * stride + b, c], axis=[a, b]
        ),
        "out",
    )
    return te.create_prim_func([x, out])


@pytest.mark.long(every=5)
@pytest.mark.parametrize("chained", [False, True], ids=["alone", "chained"])
@pytest.mark.parametrize("kind", ["max", "sum"])
@pytest.mark.parametrize("shape", [(1, 14, 32, 3, 2), (2, 9, 7, 3, 1), (1, 26, 96, 2, 2)], ids=str)
def test_a_padded_window_is_right_in_one_launch(shape, kind, chained):
    func = pool(*shape, kind, chained)
    gpu = planned(func)
    assert len(gpu.plan.launches()) == 1
    assert wrong(func, gpu, seed=2) is None


def narrow_pool(rows: int, columns: int, channels: int) -> tirx.PrimFunc:
    """Return the largest of 2 by 2, padded along columns alone, of every second row."""
    x = te.placeholder((rows, columns, channels), name="x")
    padded = te.compute(
        (rows, columns + 2, channels),
        lambda i, j, c: tirx.if_then_else(
            tirx.all(j >= 1, j <= columns), x[i, j - 1, c], tirx.min_value("float32")
        ),
        "padded",
    )
    a, b = te.reduce_axis((0, 2)), te.reduce_axis((0, 2))
    out = te.compute(
        (rows // 2, columns + 1, channels),
        lambda i, j, c: te.max(padded[i * 2 + a, j + b, c], axis=[a, b]),
        "out",
    )
    return te.create_prim_func([x, out])


def test_what_is_padded_along_one_axis_is_planned():
    """Rows are not shared, columns are: the padded image has no place in shared memory."""
    func = narrow_pool(8, 25, 64)
    assert wrong(func, planned(func), seed=6) is None
