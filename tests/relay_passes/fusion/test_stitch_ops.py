"""StitchOps: what becomes one Primitive function, and what is refused and why."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tvm
from tvm import ir, relax, tirx
from tvm.ir import IRModule, assert_structural_equal
from tvm.relax import op
from tvm.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import relay_passes as relay
import tir_schedules
from relay_passes.graph.fusion_plan import FusionPlan
from relay_passes.graph.legality import refuse_node
from support.kernels import stitch_case as sc
from support.kernels import tir
from support.models import relax_models as rm
from tir_schedules.fuel import Fuel, burning

ROWS, COLUMNS = rm.ROWS, rm.COLUMNS


def stitch(mod: IRModule, **options: object) -> tuple[IRModule, list[FusionPlan]]:
    """Legalize `mod` and run StitchOps; return the result and its plans."""
    grouping = relay.transform.StitchOps(**options)
    with rm.cpu():
        legal = relay.transform.Sequential([LegalizeOps(), AnnotateTIROpPattern()])(mod)
        return grouping(legal), grouping.graphs


def groups(plans: list[FusionPlan]) -> list[list[str]]:
    """Return the ops of every group of two or more, in order of execution."""
    return [[n.name for n in g.nodes] for p in plans for g in p.groups if len(g.nodes) > 1]


def reasons(plans: list[FusionPlan]) -> str:
    return "\n".join(note for p in plans for g in p.groups for note in g.stopped)


def finish(mod: IRModule) -> IRModule:
    passes = [FuseOps(), FuseTIR(), tir_schedules.ApplyStitchSchedules()]
    with rm.cpu():
        return relay.transform.Sequential(passes)(mod)


def primitives(mod: IRModule) -> list[relax.Function]:
    return [
        f
        for _, f in mod.functions_items()
        if isinstance(f, relax.Function) and f.attrs and "Primitive" in f.attrs
    ]


@I.ir_module
class Before:
    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((8, 16), "float32"), y: T.Buffer((8, 16), "float32")):
        T.func_attr({"op_pattern": 0})
        for i, j in T.grid(8, 16):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] + x[vi, vj]

    @R.function
    def main(x: R.Tensor((8, 16), "float32")) -> R.Tensor((8, 16), "float32"):
        cls = Before
        with R.dataflow():
            a = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((8, 16), "float32"))
            b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((8, 16), "float32"))
            R.output(b)
        return b


@I.ir_module
class Expected:
    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((8, 16), "float32"), y: T.Buffer((8, 16), "float32")):
        T.func_attr({"op_pattern": 0})
        for i, j in T.grid(8, 16):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] + x[vi, vj]

    @R.function(private=True)
    def stitch_twice_twice(p0: R.Tensor((8, 16), "float32")) -> R.Tensor((8, 16), "float32"):
        R.func_attr({"Primitive": True})
        cls = Expected
        with R.dataflow():
            a = R.call_tir(cls.twice, (p0,), out_ty=R.Tensor((8, 16), "float32"))
            b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((8, 16), "float32"))
            gv: R.Tensor((8, 16), "float32") = b
            R.output(gv)
        return gv

    @R.function
    def main(x: R.Tensor((8, 16), "float32")) -> R.Tensor((8, 16), "float32"):
        cls = Expected
        with R.dataflow():
            b: R.Tensor((8, 16), "float32") = cls.stitch_twice_twice(x)
            R.output(b)
        return b


def test_a_chain_becomes_one_primitive_function():
    with rm.cpu():
        after = relay.transform.StitchOps()(Before)
    assert_structural_equal(after, Expected)


def test_a_whole_block_of_memory_intensive_ops_is_one_group():
    mod, plans = stitch(rm.residual_norm_softmax().mod)
    (ops,) = groups(plans)
    assert ops[0] == "add" and ops[-1] == "softmax" and "mean" in ops
    (func,) = primitives(mod)
    assert len(func.params) == 2


def test_a_group_runs_and_agrees_with_numpy():
    model = rm.residual_norm_softmax()
    executable = tvm.compile(finish(stitch(model.mod)[0]), rm.cpu())
    (got,) = rm.run(executable, model)
    np.testing.assert_allclose(got, model.expected[0], 1e-5, 1e-6)


def _diamond() -> rm.Relaxed:
    """A value read twice, joined again behind two different reductions."""
    (x,) = rm.arrays((ROWS, COLUMNS))

    def emit(b, p):
        shared = b.emit(op.exp(b.emit(op.negative(b.emit(op.abs(p))))))
        sums = b.emit(op.sum(shared, -1, True))
        largest = b.emit(op.max(shared, -1, True))
        return b.emit(op.divide(shared, b.emit(op.add(sums, largest))))

    shared = np.exp(-np.abs(x.astype(np.float64)))
    expected = shared / (shared.sum(-1, keepdims=True) + shared.max(-1, keepdims=True))
    return rm.Relaxed(rm.module(emit, x), (x,), (expected,))


def test_a_diamond_is_one_group_and_right():
    model = _diamond()
    mod, plans = stitch(model.mod)
    assert len(groups(plans)) == 1
    (got,) = rm.run(tvm.compile(finish(mod), rm.cpu()), model)
    np.testing.assert_allclose(got, model.expected[0], 1e-5)


def test_a_value_read_outside_becomes_an_output_of_its_group():
    model = rm.splits_and_returns_a_tuple()
    mod, plans = stitch(model.mod)
    (group,) = [g for p in plans for g in p.groups if len(g.nodes) > 1]
    assert len(group.outputs()) == 4
    (func,) = primitives(mod)
    assert len(func.ret_ty.fields) == 4


def test_a_tensor_is_a_parameter_of_its_group_once():
    (x,) = rm.arrays((ROWS, COLUMNS))

    def emit(b, p):
        return b.emit(op.add(b.emit(op.multiply(p, p)), p))

    (func,) = primitives(stitch(rm.module(emit, x))[0])
    assert len(func.params) == 1


def test_constants_become_parameters():
    mod, _ = stitch(rm.has_constants().mod)
    (func,) = primitives(mod)
    found = []
    relax.analysis.post_order_visit(
        func.body, lambda e: found.append(e) if isinstance(e, ir.GenericConst) else None
    )
    assert found == []


def test_identical_layers_share_one_kernel():
    (x,) = rm.arrays((ROWS, COLUMNS))

    def emit(b, p):
        for _ in range(3):
            p = b.emit(op.sort(rm.emit_layer_norm(b, b.emit(op.exp(p))), axis=1))
        return p

    mod, plans = stitch(rm.module(emit, x))
    assert len(groups(plans)) == 3
    scheduled = finish(mod)
    assert len(sc.launches(scheduled)) == 3
    kernels = [f for _, f in scheduled.functions_items() if isinstance(f, tirx.PrimFunc)]
    assert len(kernels) == 1


def test_readers_of_one_tensor_share_a_group():
    (x,) = rm.arrays((ROWS, COLUMNS))

    def emit(b, p):
        return b.emit(op.sum(p, -1)), b.emit(op.max(p, -1)), b.emit(op.exp(p))

    _, plans = stitch(rm.module(emit, x))
    assert [sorted(ops) for ops in groups(plans)] == [["max", "sum", "tir_exp"]]


def test_axes_that_only_change_their_names_do_not_stop_a_group():
    (x,) = rm.arrays((4, 8, 16, 32))

    def emit(b, p):
        moved = b.emit(op.permute_dims(b.emit(op.exp(p)), [0, 2, 1, 3]))
        flat = b.emit(op.reshape(moved, (64, 256)))
        return b.emit(op.nn.softmax(flat))

    _, plans = stitch(rm.module(emit, x))
    (ops,) = groups(plans)
    assert len(ops) == 4


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A module, the reason to be given, pairs that must stay apart, StitchOps' options, fuel."""

    mod: IRModule
    reason: str
    apart: tuple[str, str]
    options: dict = dataclasses.field(default_factory=dict)
    fuel: int | None = None


def _cycle() -> Refusal:
    (x,) = rm.arrays((ROWS, COLUMNS))

    def emit(b, p):
        made = b.emit(op.exp(p))
        return b.emit(op.add(made, b.emit(op.sort(made, axis=1))))

    return Refusal(
        rm.module(emit, x), "another kernel stands between them: the union would be a cycle",
        ("tir_exp", "add"),
    )  # fmt: skip


def _long_cycle() -> Refusal:
    """The way back leads through a group, not through one op."""
    (x,) = rm.arrays((ROWS, COLUMNS))

    def emit(b, p):
        made = b.emit(op.exp(p))
        away = b.emit(op.sqrt(b.emit(op.sort(b.emit(op.abs(made)), axis=1))))
        return b.emit(op.add(made, b.emit(op.negative(away))))

    return Refusal(rm.module(emit, x), "the union would be a cycle", ("tir_exp", "add"))


def _compute() -> Refusal:
    x, weight = rm.arrays((ROWS, COLUMNS), (COLUMNS, 4 * COLUMNS))

    def emit(b, p, q):
        wide = b.emit(op.nn.softmax(b.emit(op.matmul(p, q))))
        return b.emit(op.matmul(wide, b.emit(op.permute_dims(q))))

    return Refusal(
        rm.module(emit, x, weight), "compute-intensive ops keep to their own kernel",
        ("matmul", "matmul1"),
    )  # fmt: skip


def _opaque() -> Refusal:
    (x,) = rm.arrays((ROWS, COLUMNS))

    def emit(b, p):
        return b.emit(op.exp(b.emit(op.sort(p, axis=1))))

    return Refusal(rm.module(emit, x), "relax.sort: not a call_tir binding", ("sort", "tir_exp"))


def _large_tile() -> Refusal:
    (x,) = rm.arrays((ROWS, COLUMNS))

    def emit(b, p):
        return b.emit(op.exp(b.emit(op.nn.softmax(p))))

    small = dataclasses.replace(sc.device(), l2_bytes=2048)
    return Refusal(
        rm.module(emit, x), "bytes of buffers, half of L2 is 1024", ("softmax", "tir_exp"),
        {"device": small},
    )  # fmt: skip


def _no_common_tile() -> Refusal:
    (x,) = rm.arrays((1024, 1024))

    def emit(b, p):
        return b.emit(op.nn.softmax(b.emit(op.nn.softmax(p, axis=-1)), axis=0))

    return Refusal(rm.module(emit, x), "would cross a barrier", ("softmax", "softmax1"))


def _no_fuel() -> Refusal:
    mod = rm.residual_norm_softmax().mod
    return Refusal(mod, "out of fuel", ("add", "softmax"), fuel=0)


def _no_elements() -> Refusal:
    x = np.zeros((0, 8), np.float32)

    def emit(b, p):
        return b.emit(op.exp(b.emit(op.negative(p))))

    return Refusal(rm.module(emit, x), "a tensor has no elements", ("tir_negative", "tir_exp"))


@I.ir_module
class Symbolic:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32")) -> R.Tensor(("n", 16), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(a)
            R.output(b)
        return b


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_cycle, id="cycle"),
        pytest.param(_long_cycle, id="cycle-through-a-group"),
        pytest.param(_compute, id="compute-intensive"),
        pytest.param(_opaque, id="opaque"),
        pytest.param(_large_tile, id="tile-too-large"),
        pytest.param(_no_common_tile, id="no-common-tile"),
        pytest.param(_no_fuel, id="fuel"),
        pytest.param(_no_elements, id="no-elements"),
    ],
)
def test_refuses_and_says_why(make):
    refusal = make()
    with burning(Fuel(refusal.fuel)):
        _, plans = stitch(refusal.mod, **refusal.options)
    assert refusal.reason in reasons(plans)
    assert all(not set(refusal.apart) <= set(ops) for ops in groups(plans))


def test_ops_of_symbolic_shape_join_nothing_and_say_why():
    mod, plans = stitch(Symbolic)
    assert groups(plans) == [] and primitives(mod) == []
    (plan,) = plans
    assert all("not static" in str(refuse_node(n)) for n in plan.graph.nodes)


@pytest.mark.parametrize("make", [_cycle, _long_cycle])
def test_a_refused_cycle_still_runs(make):
    mod = finish(stitch(make().mod)[0])
    (x,) = rm.arrays((ROWS, COLUMNS))
    model = rm.Relaxed(mod, (x,), ())
    (got,) = rm.run(tvm.compile(mod, rm.cpu()), model)
    exp = np.exp(x.astype(np.float64))
    back = np.sort(exp, 1) if make is _cycle else -np.sqrt(np.sort(exp, 1))
    np.testing.assert_allclose(got, exp + back, 1e-5, 1e-5)


def test_every_amount_of_fuel_gives_a_right_model_and_more_fuel_fewer_kernels():
    model = rm.splits_and_returns_a_tuple()
    launches = []
    for fuel in range(8):
        with burning(Fuel(fuel)):
            mod, plans = stitch(model.mod)
        assert sum(plan.merges for plan in plans) <= fuel
        passes = [FuseTIR(), tir_schedules.ApplyStitchSchedules()]
        with rm.cpu():
            scheduled = relay.transform.Sequential(passes)(mod)
        launches.append(len(sc.launches(scheduled)))
        got = rm.run(tvm.compile(scheduled, rm.cpu()), model)
        for mine, theirs in zip(got, model.expected, strict=True):
            np.testing.assert_allclose(mine, theirs, 1e-5, 1e-6)
    assert launches == sorted(launches, reverse=True)
    assert launches[0] > launches[-1] == 1


def test_groups_are_disjoint_and_hold_every_op_once():
    for make in rm.UNHARMED.values():
        for plan in stitch(make().mod)[1]:
            members = [id(n) for group in plan.groups for n in group.nodes]
            assert sorted(members) == sorted(id(n) for n in plan.graph.nodes)


def test_every_group_the_planner_accepts_is_scheduled_as_one_kernel():
    for make in rm.UNHARMED.values():
        mod, _ = stitch(make().mod)
        scheduling = tir_schedules.ApplyStitchSchedules(sc.device())
        with rm.cpu():
            fused = relay.transform.Sequential([FuseOps(), FuseTIR()])(mod)
            scheduled = scheduling(fused)
        assert scheduling.declined == {}
        for gvar, func in scheduled.functions_items():
            if isinstance(func, tirx.PrimFunc) and gvar.name_hint.startswith("stitch_"):
                tir.assert_stitched(func, sc.device())


def test_a_function_without_a_dataflow_block_stays_as_it_is():
    with rm.cpu():
        legal = LegalizeOps()(rm.residual_norm_softmax(dataflow=False).mod)
        assert_structural_equal(relay.transform.StitchOps()(legal), legal)
