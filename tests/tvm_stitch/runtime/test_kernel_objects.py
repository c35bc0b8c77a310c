"""Kernels that are built on all CPUs are those that TVM builds on one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax, tirx
from zoo.graph import Graph

import tvm_stitch
from support.kernels import stitch_case as sc
from tvm_stitch import build, targets
from tvm_stitch.runtime.linking import kernel_objects
from tvm_stitch.runtime.linking.kernel_objects import building_kernels


def several_kernels(seed: int = 0) -> onnx.ModelProto:
    """Return chains of products with weights, of which no two share an input."""
    g = Graph("several")
    for number, columns in enumerate((64, 130, 7)):
        rows = 24 + number
        x, w = g.input(f"x{number}", (rows, 96)), g.weight(f"w{number}", (96, columns))
        g.output(g.op("Softmax", g.op("MatMul", x, w)), f"y{number}", (rows, columns))
    g.output(g.op("ReduceMean", g.input("x", (33, 5)), axes=[1], keepdims=0), "mean", (33,))
    return g.model()


@pytest.fixture
def watched(monkeypatch):
    """Return the lists of what was built apart, which grow."""
    seen = []
    real = tvm.tirx.build

    def build_share(mod, target=None, pipeline="default"):
        seen.append([var.name_hint for var in mod.functions])
        return real(mod, target=target, pipeline=pipeline)

    monkeypatch.setattr(kernel_objects.tvm.tirx, "build", build_share)
    return seen


def results(model: onnx.ModelProto, inputs: dict, fusion: str = "stitch") -> dict:
    return tvm_stitch.compile(model, threads=2, fusion=fusion).run(inputs)


@pytest.mark.parametrize("fusion", build.FUSIONS)
def test_built_on_two_cpus_or_on_one_a_model_computes_the_same(fusion, monkeypatch, watched):
    model = several_kernels()
    inputs = sc.zoo.random_inputs(model)
    monkeypatch.setattr(build, "available_cpus", lambda: 2)
    apart = results(model, inputs, fusion)
    assert len(watched) > 1  # what TVM builds itself, and what is built beside it
    names = [name for share in watched for name in share]
    assert len(names) == len(set(names))
    watched.clear()
    monkeypatch.setattr(build, "available_cpus", lambda: 1)
    together = results(model, inputs, fusion)
    assert len(watched) == 1
    assert sorted(watched[0]) == sorted(names)
    assert all(np.array_equal(apart[name], together[name]) for name in together)


def test_an_exported_model_has_all_its_kernels(tmp_path, monkeypatch):
    model = several_kernels()
    inputs = sc.zoo.random_inputs(model)
    monkeypatch.setattr(build, "available_cpus", lambda: 3)
    made = tvm_stitch.compile(model, threads=2)
    made.export(tmp_path / "m.so")
    again = tvm_stitch.load(tmp_path / "m.so").run(inputs)
    assert all(np.array_equal(again[name], y) for name, y in made.run(inputs).items())


def kernels_of(count: int) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((8,), "float32"))
    with builder.function("main", [x]):
        y = x
        for number in range(count):
            y = builder.emit_te(lambda a, n=number: tvm.te.compute((8,), lambda i: a[i] + n), y)
        builder.emit_func_output(y)
    return relax.transform.AttachGlobalSymbol()(builder.get())


def taken(mod: tvm.IRModule, cpus: int, instruments=()) -> tuple[tvm.IRModule, int]:
    """Return what is left of a module, and how many objects were made."""
    with building_kernels(targets.resolve("x86", 2), cpus) as kernels:
        with tvm.transform.PassContext(instruments=list(instruments)):
            rest = kernels.taken(mod)
        paths = kernels.paths()
        assert all(path.stat().st_size for path in paths)
    assert not any(path.exists() for path in paths)
    return rest, len(paths)


def prim_funcs(mod: tvm.IRModule) -> int:
    return sum(isinstance(f, tirx.PrimFunc) for _, f in mod.functions_items())


@pytest.mark.parametrize(("count", "objects"), [(0, 0), (1, 0), (2, 1), (40, 16)])
def test_one_kernel_is_left_to_tvm(count, objects):
    rest, made = taken(kernels_of(count), 2)
    assert made == objects
    assert prim_funcs(rest) == min(count, 1)
    assert len(rest.functions) == count + 1


def test_one_cpu_and_instruments_leave_all_to_tvm():
    mod = kernels_of(4)
    assert taken(mod, 1)[0].same_as(mod)
    counting = tvm.ir.instrument.PassTimingInstrument()
    rest, made = taken(mod, 2, [counting])
    assert made == 0
    assert prim_funcs(rest) == 4


def test_what_fails_on_another_thread_fails_the_compilation(monkeypatch):
    monkeypatch.setattr(build, "available_cpus", lambda: 2)
    monkeypatch.setattr(kernel_objects.KernelObjects, "_build", refusing_build)
    with pytest.raises(RuntimeError, match="no code for it"):
        tvm_stitch.compile(several_kernels(), threads=2)


def refusing_build(*_share: object) -> None:
    raise RuntimeError("no code for it")
