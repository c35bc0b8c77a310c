"""Intermediate tensors share one arena, and none is where another is that is alive with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from relay_passes.memory.plan_memory import PLACE, _offsets, _Span
from relay_passes.transform import PlanMemory
from support.kernels import stitch_case as sc
from tvm_stitch.reports.memory import _STORAGE, _calls, peak_bytes


def most_alive(spans: list[_Span]) -> int:
    steps = {step for span in spans for step in (span.first, span.last)}
    return max(sum(s.bytes for s in spans if s.first <= step <= s.last) for step in steps)


lifetimes = st.tuples(st.integers(1, 5000), st.integers(0, 30), st.integers(0, 8))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(lifetimes, min_size=1, max_size=40))
def test_tensors_that_are_alive_together_lie_apart(drawn):
    spans = [
        _Span(relax.Var(f"v{n}", relax.TensorType((size,), "int8")), size, first, first + more)
        for n, (size, first, more) in enumerate(drawn)
    ]
    offsets = _offsets(spans)
    for span in spans:
        low, high = offsets[span.var]
        assert low % 64 == 0
        assert high - low >= span.bytes
    for one, other in itertools.combinations(spans, 2):
        if one.meets(other):
            (a, b), (c, d) = offsets[one.var], offsets[other.var]
            assert b <= c or d <= a
    assert max(high for _, high in offsets.values()) >= most_alive(spans)


def test_a_large_tensor_and_small_ones_take_turns():
    def span(name: str, size: int, first: int, last: int) -> _Span:
        return _Span(relax.Var(name, relax.TensorType((size,), "int8")), size, first, last)

    spans = [span("a", 128, 0, 1), span("wide", 512, 1, 2), span("b", 256, 2, 3),
             span("c", 128, 3, 4), span("d", 256, 3, 4)]  # fmt: skip
    assert max(high for _, high in _offsets(spans).values()) == most_alive(spans) == 768


@I.ir_module
class Lowered:
    """What CallTIRRewrite leaves: `c` views `b`, and `t` holds `b` and `d` till the end."""

    @T.prim_func(private=True)
    def twice(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for i in range(64):
            y[i] = x[i] * T.float32(2)

    @R.function
    def main(x: R.Tensor((64,), "float32")) -> R.Tensor((64,), "float32"):
        R.func_attr({"relax.force_pure": True})
        cls = Lowered
        a = R.builtin.alloc_tensor(R.shape([64]), R.dtype("float32"), 0, R.str("global"))
        cls.twice(x, a)
        b = R.builtin.alloc_tensor(R.shape([64]), R.dtype("float32"), 0, R.str("global"))
        cls.twice(a, b)
        c: R.Tensor((64,), "float32") = b
        v = R.reshape(c, R.shape([64]))
        d = R.builtin.alloc_tensor(R.shape([64]), R.dtype("float32"), 0, R.str("global"))
        cls.twice(b, d)
        t = (d, v)
        e = R.builtin.alloc_tensor(R.shape([64]), R.dtype("float32"), 0, R.str("global"))
        u = t[1]
        cls.twice(u, e)
        f = R.builtin.alloc_tensor(R.shape([64]), R.dtype("float32"), 0, R.str("global"))
        cls.twice(e, f)
        return f


def places(mod) -> dict[str, int]:
    found = {}
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            op = value.op if isinstance(value, relax.Call) else None
            if isinstance(op, relax.ExternFunc) and op.global_symbol == PLACE:
                found[binding.var.name] = int(value.args[1].value)
    return found


def test_views_and_tuples_keep_their_tensors_alive():
    made = PlanMemory()(Lowered)
    relax.analysis.well_formed(made)
    at = places(made)
    assert set(at) == {"a", "b", "d", "e"}  # not `f`, which leaves the function
    assert at["b"] not in (at["d"], at["e"])  # read through its view, behind `d`
    assert at["a"] in (at["d"], at["e"])  # dead when they are made
    assert len(set(at.values())) == 2


def test_the_arena_is_of_other_pages_than_the_result():
    """TVM's allocator tells buffers apart by their pages, and would let the two change places."""
    made = PlanMemory()(Lowered)
    (storage,) = _calls(made["main"], _STORAGE)
    assert int(storage[1].args[0].values[0]) == 2 * 64 * 4 + 4096


def test_planning_again_finds_nothing():
    made = PlanMemory()(Lowered)
    assert PlanMemory()(made)["main"].script() == made["main"].script()


@pytest.mark.long(every=2)
@pytest.mark.parametrize("name", ["mobilenetv2", "bert"])
def test_a_model_takes_no_more_than_what_is_alive_and_runs_again(name):
    model = sc.zoo.model(name, **sc.zoo.SMALL[name])
    built = sc.compiled(model)
    unshared, planned = peak_bytes(built.mod)
    report = built.model.report
    assert (report.peak_bytes_unshared, report.peak_bytes) == (unshared, planned)
    assert planned < unshared
    feeds = sc.zoo.random_inputs(model, 1)
    first = {key: array.copy() for key, array in built.model.run(feeds).items()}
    built.model.run(sc.zoo.random_inputs(model, 2))
    for key, array in built.model.run(feeds).items():
        np.testing.assert_array_equal(array, first[key])
