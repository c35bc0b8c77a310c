"""Conditions on a loop's position: where they change, and what holds between."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tvm
from tvm.relax import op

from support.kernels.evaluation import evaluate, points
from support.kernels.joined import emit_concat, emit_flip, emit_split, kernel_of
from support.kernels.stitched import stitched
from support.models import relax_models as rm
from tir_schedules.analysis.atomize import atomize
from tir_schedules.analysis.coalesce import coalesce
from tir_schedules.analysis.iteration_space import Node
from tir_schedules.cpu.facts import guards
from tir_schedules.kernel_ir.expr import Op, walk
from tir_schedules.rewrites.inline import inline_stages


def emit_pad(b, p):
    return b.emit(op.exp(b.emit(op.nn.pad(p, (0, 0, 2, 3), pad_value=1.0))))


def emit_pad_both(b, p):
    return b.emit(op.nn.pad(p, (1, 1, 2, 0)))


def emit_three(b, p, q):
    return b.emit(op.concat([p, q, b.emit(op.exp(p))], axis=1))


def emit_outer_concat(b, p, q):
    return b.emit(op.concat([p, q], axis=0))


def emit_strided(b, p):
    return b.emit(op.strided_slice(b.emit(op.nn.pad(p, (0, 0, 1, 1))), [1], [0], [8], [2]))


GUARDED = [
    pytest.param(emit_concat, [(3, 4), (3, 5)], id="concat"),
    pytest.param(emit_three, [(2, 3), (2, 6)], id="concat-of-three"),
    pytest.param(emit_outer_concat, [(2, 5), (3, 5)], id="concat-of-rows"),
    pytest.param(emit_pad, [(3, 5)], id="pad"),
    pytest.param(emit_pad_both, [(3, 5)], id="pad-two-axes"),
    pytest.param(emit_strided, [(3, 6)], id="slice-of-a-pad"),
]
PLAIN = [
    pytest.param(emit_split, [(3, 8)], id="split"),
    pytest.param(emit_flip, [(3, 5)], id="flip"),
]


def nodes_of(emit, shapes) -> list[Node]:
    return list(coalesce(atomize(inline_stages(kernel_of(emit, *shapes)))).nodes)


def _point_values(node: Node, arrays: dict) -> list[tuple[dict, float]]:
    return [(p, evaluate(node.stage.value, p, arrays)) for p in points(node.stage.axes)]


@pytest.mark.parametrize(("emit", "shapes"), [*GUARDED, *PLAIN])
def test_between_two_cuts_the_resolved_value_is_the_value(emit, shapes):
    for node in nodes_of(emit, shapes):
        tensors = {id(ld.tensor): ld.tensor for ld in node.reads}
        filled = rm.arrays(*[t.shape for t in tensors.values()], seed=5)
        arrays = dict(zip(tensors, filled, strict=True))
        for axis, digits in node.digits.items():
            if len(digits) != 1 or digits[0][0] not in node.atoms:
                continue
            atom = digits[0][0]
            cuts = guards.cuts(node, atom)
            if cuts is None:
                continue
            assert cuts == sorted(set(cuts)) and all(0 < c < atom.extent for c in cuts)
            edges = [0, *cuts, atom.extent]
            for low, high in itertools.pairwise(edges):
                resolved = guards.resolve(node.stage.value, node, atom, low)
                for point, value in _point_values(node, arrays):
                    if low <= point[axis] < high:
                        assert evaluate(resolved, point, arrays) == value


@pytest.mark.parametrize(("emit", "shapes"), GUARDED)
def test_a_guard_on_an_axis_is_found_and_gone_once_resolved(emit, shapes):
    found = 0
    for node in nodes_of(emit, shapes):
        for atom in node.atoms:
            for low in guards.cuts(node, atom) or ():
                found += 1
                resolved = guards.resolve(node.stage.value, node, atom, low)
                assert _conditions(resolved) < _conditions(node.stage.value)
    assert found


@pytest.mark.parametrize(("emit", "shapes"), PLAIN)
def test_a_value_without_conditions_is_not_cut(emit, shapes):
    for node in nodes_of(emit, shapes):
        assert all(guards.cuts(node, atom) == [] for atom in node.atoms)


def _conditions(expr) -> int:
    return sum(
        isinstance(e, Op) and e.name in ("LT", "LE", "GT", "GE", "EQ", "NE") for e in walk(expr)
    )


@pytest.mark.parametrize(("emit", "shapes"), GUARDED)
def test_a_guarded_kernel_runs_right_in_lanes(emit, shapes):
    """The same kernels in sizes with whole strips and tails, against NumPy."""
    wide = [(*s[:-1], s[-1] * 13) for s in shapes]
    inputs = rm.arrays(*wide, seed=6)
    mod = stitched(rm.module(emit, *inputs))
    (got,) = rm.run(tvm.compile(mod, rm.cpu()), rm.Relaxed(mod, inputs, ()))
    np.testing.assert_allclose(got, _expected(emit, *inputs), 1e-6)


def _expected(emit, p, q=None):
    return {
        emit_concat: lambda: np.exp(np.concatenate([-p, q], 1)),
        emit_three: lambda: np.concatenate([p, q, np.exp(p)], 1),
        emit_outer_concat: lambda: np.concatenate([p, q], 0),
        emit_pad: lambda: np.exp(np.pad(p, ((0, 0), (2, 3)), constant_values=1.0)),
        emit_pad_both: lambda: np.pad(p, ((1, 1), (2, 0))),
        emit_strided: lambda: np.pad(p, ((0, 0), (1, 1)))[:, 0:8:2],
    }[emit]()
