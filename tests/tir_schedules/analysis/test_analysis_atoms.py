"""Atoms: shared coordinates in which every access of a kernel is a dot product."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tvm.relax import op

from support.kernels.evaluation import evaluate, points, run_kernel
from support.kernels.joined import emit_concat, emit_flip, emit_split, kernel_of
from support.models import relax_models as rm
from tir_schedules.analysis.atomize import atomize
from tir_schedules.analysis.coalesce import coalesce
from tir_schedules.analysis.iteration_space import Access, Atom, Node, Space
from tir_schedules.kernel_ir.stage import flat_index
from tir_schedules.rewrites.inline import inline_stages
from tir_schedules.rewrites.widen import widen

emit_layer_norm = rm.emit_layer_norm


def emit_group_norm(b, p):
    grouped = b.emit(op.reshape(p, (2, 3, 20)))
    return b.emit(op.reshape(rm.emit_layer_norm(b, grouped), (2, 6, 2, 5)))


def emit_heads(b, p):
    split = b.emit(op.permute_dims(b.emit(op.reshape(b.emit(op.exp(p)), (5, 3, 4))), [1, 0, 2]))
    return b.emit(op.nn.softmax(split))


def emit_row_then_group(b, p):
    normal = rm.emit_layer_norm(b, p)
    grouped = b.emit(op.reshape(normal, (4, 3, 4)))
    largest = b.emit(op.max(b.emit(op.abs(grouped)), -1, True))
    return b.emit(op.divide(grouped, largest))


def emit_row_and_column(b, p):
    shared = b.emit(op.tanh(p))
    return b.emit(op.sum(shared, -1)), b.emit(op.sum(shared, 0))


def emit_broadcast(b, p, q):
    return b.emit(op.nn.softmax(b.emit(op.add(p, q)), axis=1))


def emit_column_softmax(b, p):
    turned = b.emit(op.permute_dims(b.emit(op.nn.softmax(p, axis=0))))
    return b.emit(op.exp(turned))


KERNELS = [
    pytest.param(emit_layer_norm, [(4, 12)], id="layer-norm"),
    pytest.param(emit_group_norm, [(2, 6, 2, 5)], id="group-norm"),
    pytest.param(emit_heads, [(5, 12)], id="reshape-transpose-softmax"),
    pytest.param(emit_row_then_group, [(4, 12)], id="row-then-group"),
    pytest.param(emit_row_and_column, [(4, 6)], id="row-and-column"),
    pytest.param(emit_broadcast, [(2, 3, 4), (1, 3, 1)], id="broadcast"),
    pytest.param(emit_split, [(3, 8)], id="split"),
    pytest.param(emit_concat, [(3, 4), (3, 5)], id="concat"),
    pytest.param(emit_flip, [(3, 5)], id="flip"),
    pytest.param(emit_column_softmax, [(4, 6)], id="softmax-transpose"),
]


@pytest.mark.parametrize(("emit", "shapes"), KERNELS)
def test_inlining_keeps_every_result(emit, shapes):
    kernel = kernel_of(emit, *shapes)
    filled = rm.arrays(*[t.shape for t in kernel.inputs], seed=3)
    inputs = [a.astype(np.float64) for a in filled]
    before, after = run_kernel(kernel, inputs), run_kernel(inline_stages(kernel), inputs)
    for left, right in zip(before, after, strict=True):
        np.testing.assert_allclose(right, left, 1e-12)
        assert not np.isnan(right).any()


@pytest.mark.parametrize(("emit", "shapes"), KERNELS)
def test_inlining_leaves_outputs_reductions_and_what_they_need(emit, shapes):
    kernel = kernel_of(emit, *shapes)
    inlined = inline_stages(kernel)
    assert len(inlined.stages) <= len(kernel.stages)
    assert {id(t) for t in kernel.outputs} <= {id(s.out) for s in inlined.stages}
    assert sum(s.reduction is not None for s in inlined.stages) == sum(
        s.reduction is not None for s in kernel.stages
    )
    made: set[int] = {id(t) for t in kernel.inputs}
    for stage in inlined.stages:
        assert all(id(ld.tensor) in made for ld in stage.loads())
        made.add(id(stage.out))


@pytest.mark.parametrize(("emit", "shapes"), KERNELS)
@pytest.mark.parametrize("prepare", [lambda k: k, inline_stages], ids=["whole", "inlined"])
def test_an_access_in_atoms_has_the_address_of_its_index(emit, shapes, prepare):
    space = atomize(prepare(kernel_of(emit, *shapes)))
    for node in space.nodes:
        assert all(_weight(digits) == axis.extent for axis, digits in node.digits.items())
        for place in _places(node):
            point = _point(node, place)
            for access in (node.store, *node.reads.values()):
                if not access.opaque:
                    assert _address(access, place) == _flat(access, point)


@pytest.mark.parametrize(("emit", "shapes"), KERNELS)
def test_a_tight_edge_reads_what_was_made_at_the_same_atoms(emit, shapes):
    space = atomize(inline_stages(kernel_of(emit, *shapes)))
    for edge in space.edges:
        if edge.unaligned:
            continue
        reads = [a for a in edge.consumer.reads.values() if a.tensor is edge.producer.stage.out]
        for place in _places(edge.consumer):
            made = {a: place[a] for a in edge.producer.spatial if a in place}
            assert len(made) == len(edge.producer.spatial)
            for read in reads:
                assert _address(edge.producer.store, made) == _address(read, place)


@pytest.mark.parametrize(("emit", "shapes"), KERNELS)
def test_coalesced_atoms_make_the_same_accesses(emit, shapes):
    space = atomize(inline_stages(kernel_of(emit, *shapes)))
    merged = coalesce(space)
    assert len(merged.nodes) == len(space.nodes)
    for before, after in zip(space.nodes, merged.nodes, strict=True):
        assert len(after.atoms) <= len(before.atoms)
        assert _trace(before) == _trace(after)


@pytest.mark.parametrize(("emit", "shapes"), KERNELS)
def test_coalescing_leaves_no_pair_that_could_merge(emit, shapes):
    merged = coalesce(atomize(inline_stages(kernel_of(emit, *shapes))))
    again = coalesce(merged)
    assert [n.atoms for n in again.nodes] == [n.atoms for n in merged.nodes]


def _space(emit, *shapes: tuple[int, ...]) -> Space:
    return atomize(inline_stages(kernel_of(emit, *shapes)))


def test_a_group_norm_has_a_group_and_an_inside_for_its_channels():
    space = _space(emit_group_norm, (2, 6, 2, 5))
    reduced = [n for n in space.nodes if n.reduced]
    assert reduced and all(math.prod(a.extent for a in n.reduced) == 20 for n in reduced)
    (last,) = [n for n in space.nodes if not n.reduced and len(n.atoms) > 2]
    for node in reduced:
        assert [a.extent for a in node.spatial] == [2, 3]
        assert set(node.spatial) <= set(last.atoms)
    assert all(not e.unaligned for e in space.edges)


def test_plain_rows_coalesce_into_one_loop():
    merged = coalesce(_space(lambda b, p: b.emit(op.exp(p)), (2, 3, 4, 5)))
    (node,) = merged.nodes
    assert [a.extent for a in node.atoms] == [120]


def test_rows_of_a_norm_coalesce_but_not_with_the_reduced_axis():
    merged = coalesce(_space(emit_layer_norm, (2, 3, 4, 5)))
    assert {a.extent for n in merged.nodes for a in n.atoms} == {24, 5}


def test_a_flip_of_a_computed_value_is_loose():
    space = _space(emit_flip, (3, 5))
    unaligned = {a.extent for e in space.edges for a in e.unaligned}
    assert unaligned <= {5} and (unaligned or len(space.nodes) == 1)


def test_half_precision_lives_in_memory_alone():
    def emit(b, p):
        return b.emit(op.nn.softmax(b.emit(op.exp(p))))

    kernel = widen(kernel_of(emit, (4, 12), dtype="float16"))
    kept = {id(p) for p in kernel.params}
    for stage in kernel.stages:
        if stage.reduction is not None:
            assert stage.value.dtype == "float32"
        if id(stage.out) not in kept:
            assert stage.out.dtype == "float32"


def _weight(digits: tuple[tuple[Atom, int], ...]) -> int:
    return math.prod(a.extent for a, _ in digits)


def _places(node: Node):
    for values in itertools.product(*(range(a.extent) for a in node.atoms)):
        yield dict(zip(node.atoms, values, strict=True))


def _point(node: Node, place: dict[Atom, int]) -> dict:
    return {
        axis: sum(place[atom] * low for atom, low in digits) for axis, digits in node.digits.items()
    }


def _address(access: Access, place: dict[Atom, int]) -> int:
    return access.const + sum(stride * place[atom] for atom, stride in access.strides.items())


def _flat(access: Access, point: dict) -> int:
    strides = access.tensor.strides()
    return sum(int(evaluate(i, point)) * s for i, s in zip(access.index, strides, strict=True))


def _trace(node: Node) -> list[tuple[int, ...]]:
    """Return the addresses of every access at every place, in any order of places."""
    accesses = [a for a in (node.store, *node.reads.values()) if not a.opaque]
    return sorted(tuple(_address(a, place) for a in accesses) for place in _places(node))


def test_a_flat_index_is_row_major():
    kernel = kernel_of(emit_layer_norm, (4, 12))
    for stage in kernel.stages:
        linear = flat_index(stage.out, stage.out_index)
        for point in points(stage.axes):
            index = [int(evaluate(i, point)) for i in stage.out_index]
            flat = int(np.ravel_multi_index(index, stage.out.shape))
            total = linear.const + sum(
                t.scale * ((point[t.base] // t.low) % t.extent) for t in linear.terms
            )
            assert total == flat
