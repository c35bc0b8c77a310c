"""Recurrent layers as one kernel a direction: right, and one region whatever the steps."""

from __future__ import annotations

import re

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm import tirx

import tvm_stitch
from support.frontend import recurrent
from support.frontend.case import expected
from tir_schedules.cpu.emit import steps
from tvm_stitch import targets
from tvm_stitch.build import Request, lower

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def compiled(model, **keywords):
    return tvm_stitch.compile(model, **keywords)


def close(got, want) -> None:
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        error = np.abs(one.astype(np.float64) - other)
        assert (error <= 1e-5 * (np.abs(other) + np.abs(other).max())).all()


@pytest.mark.long(every=6)
@pytest.mark.parametrize("case", recurrent.CASES, ids=lambda case: case.id)
def test_a_loop_computes_what_onnx_says(case):
    model = case.model()
    made = compiled(model, threads=2)
    close(made.run(case.inputs).values(), expected(case, model))


def layer(op: str, steps: int, batch: int, hidden: int, directions: int, dtype=np.float32):
    rng = np.random.default_rng()
    gates, depth = GATES[op], 13
    shapes = {
        "w": (directions, gates * hidden, depth),
        "r": (directions, gates * hidden, hidden),
        "b": (directions, 2 * gates * hidden),
    }
    weights = {
        name: (rng.standard_normal(shape) / np.sqrt(hidden + depth)).astype(dtype)
        for name, shape in shapes.items()
    }
    way = "bidirectional" if directions == 2 else "forward"
    node = helper.make_node(op, ["x", *weights], ["y", "h"], hidden_size=hidden, direction=way)
    elem = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", elem, (steps, batch, depth))],
        [
            helper.make_tensor_value_info("y", elem, (steps, directions, batch, hidden)),
            helper.make_tensor_value_info("h", elem, (directions, batch, hidden)),
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return model, {"x": rng.standard_normal((steps, batch, depth)).astype(dtype)}


@pytest.mark.long(every=3)
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize(
    ("threads", "sizes"),
    [(1, (1, 1, 1, 1)), (3, (7, 5, 37, 1)), (3, (4, 8, 128, 2)), (1, (2, 33, 100, 1))],
)
def test_any_size_on_any_threads(op, sizes, threads):
    model, feeds = layer(op, *sizes)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    got = compiled(model, threads=threads).run(feeds)
    close(got.values(), session.run(None, feeds))


def test_doubles():
    model, feeds = layer("LSTM", 5, 3, 40, 1, np.float64)
    single, _ = layer("LSTM", 5, 3, 40, 1)
    for mine, theirs in zip(single.graph.initializer, model.graph.initializer, strict=True):
        array = numpy_helper.to_array(theirs).astype(np.float32)
        mine.CopyFrom(numpy_helper.from_array(array, theirs.name))
    session = onnxruntime.InferenceSession(single.SerializeToString())
    want = session.run(None, {"x": feeds["x"].astype(np.float32)})
    close(compiled(model).run(feeds).values(), want)


@pytest.mark.long(every=2)
@pytest.mark.parametrize("op", GATES)
def test_steps_are_no_kernels_of_their_own(op):
    few, many = (compiled(layer(op, steps, 2, 32, 1)[0], threads=2).report for steps in (2, 90))
    assert few.kernels == many.kernels <= 4


@pytest.mark.long(every=3)
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("threads", [3, 8])
def test_bits_do_not_depend_on_threads(op, threads):
    model, feeds = layer(op, 6, 4, 96, 2)
    one, several = (compiled(model, threads=n).run(feeds) for n in (1, threads))
    for name, array in one.items():
        assert array.tobytes() == several[name].tobytes()


def test_without_fuel_steps_are_written_out():
    model, feeds = layer("LSTM", 3, 2, 16, 1)
    rolled, unrolled = compiled(model), compiled(model, fuel=0)
    assert unrolled.report.kernels > rolled.report.kernels
    close(unrolled.run(feeds).values(), rolled.run(feeds).values())


def test_too_many_steps_to_write_out_are_refused_in_one_line():
    model, _ = layer("RNN", 1025, 1, 4, 1)
    with pytest.raises(tvm_stitch.StitchError, match="1025 steps"):
        compiled(model, fuel=0)


def test_verify_compares_loops_with_plain_ones(caplog):
    model, _ = layer("GRU", 4, 2, 24, 2)
    with caplog.at_level("INFO"):
        verified = tvm_stitch.verify(model)
    assert not verified.findings
    assert "runs as TVM builds it" not in caplog.text


def test_verify_finds_a_state_that_is_written_over_while_it_is_read(monkeypatch):
    monkeypatch.setattr(steps._Loop, "_parity", lambda self, later: tirx.IntImm("int64", 0))
    model, _ = layer("RNN", 5, 1, 70, 1)
    findings = tvm_stitch.verify(model).findings
    assert any("loop" in finding.kernel for finding in findings)


def loops_of(model, threads: int) -> str:
    mod = lowered(model, threads)
    return "\n".join(
        func.script() for var, func in mod.functions_items() if var.name_hint.startswith("loop_")
    )


def lowered(model, threads: int):
    return lower(Request(model, threads=threads)).mod


def test_rows_that_share_nothing_do_not_wait_for_each_other():
    model, _ = layer("LSTM", 5, 8, 128, 1)
    text = loops_of(model, 2)
    assert text.count("T.parallel(2)") == 1
    assert "pragma_parallel_barrier" not in text


def test_one_row_is_shared_out_with_a_barrier_a_step():
    model, _ = layer("LSTM", 5, 1, 512, 1)
    text = loops_of(model, 2)
    assert text.count("pragma_parallel_launch_point") == 1
    assert "pragma_parallel_barrier_when_finish" in text


def test_small_steps_are_on_one_thread():
    assert "T.parallel" not in loops_of(layer("RNN", 5, 1, 8, 1)[0], 2)


def test_gates_load_their_weights_once_for_all_rows_on_one_thread():
    pages = tvm_stitch.plans(layer("LSTM", 5, 8, 128, 1)[0], threads=1)
    (page,) = (page for name, page in pages.items() if name.startswith("loop_5"))
    assert page.count("register tile of packed_matmul") == 4, page


@pytest.mark.parametrize(("rows", "hidden", "order"), [
    (8, 128, "no thread waits for another"), (1, 512, "threads wait for each other"),
    (1, 8, "no thread waits for another"),
])  # fmt: skip
def test_a_loop_has_a_page_that_says_how_it_runs(rows, hidden, order):
    model, _ = layer("LSTM", 5, rows, hidden, 1)
    pages = tvm_stitch.plans(model, threads=2)
    (page,) = (page for name, page in pages.items() if name.startswith("loop_5"))
    first, *step = page.splitlines()
    assert first == f"5 steps in one kernel, {order}, each:"
    assert any("packed_matmul" in line for line in step), page


def test_what_gates_add_is_fetched_before_their_sums_if_no_cache_has_it():
    asked = {}
    for length in (5, 90):
        model, feeds = layer("LSTM", length, 33, 256, 1)
        pages = tvm_stitch.plans(model, threads=2)
        (page,) = (page for name, page in pages.items() if name.startswith(f"loop_{length}"))
        assert ("fetched before the sums" in page) == (length == 90), page
        asked[length] = loops_of(model, 2).count("llvm.prefetch")
    assert asked[90] > asked[5]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    close(compiled(model, threads=2).run(feeds).values(), session.run(None, feeds))


def test_gates_of_a_few_rows_keep_their_sums_in_registers():
    """LLVM held the sums of the gates before as well, and spilled those at hand in each step."""
    model, _ = layer("LSTM", 5, 8, 512, 1)
    mod = lower(Request(model, target="x86-64-v4", threads=2)).mod
    (loop,) = (f for v, f in mod.functions_items() if v.name_hint.startswith("loop_5"))
    code = tvm.tirx.build(
        loop.with_attr("global_symbol", "loop"), target=targets.resolve("x86-64-v4", 2)
    ).inspect_source("asm")
    loops = re.findall(r"prefetcht0.*?\n\s+j\w+", code, re.DOTALL)
    sums = [loop for loop in loops if loop.count("vfmadd") >= 16]
    assert len(sums) >= GATES["LSTM"]
    assert not any(re.search(r"vmovups\s+%zmm\d+, \d*\(%rsp\)", loop) for loop in sums)


def test_weights_larger_than_a_cache_are_read_from_beyond_it_in_whatever_phases():
    """Each phase of a step reads what would fit L2, all of them together do not."""
    model, _ = layer("LSTM", 5, 1, 512, 1)
    pages = tvm_stitch.plans(model, threads=2)
    (page,) = (page for name, page in pages.items() if name.startswith("loop_5"))
    assert "partial sums" not in page


def test_each_gate_asks_for_its_own_weights():
    """What the last would ask for of all of them in its steps comes too late."""
    model, _ = layer("LSTM", 5, 8, 1024, 1)
    pages = tvm_stitch.plans(model, threads=2)
    (page,) = (page for name, page in pages.items() if name.startswith("loop_5"))
    gates = [line for line in page.splitlines() if "register tile of" in line]
    assert len(gates) == GATES["LSTM"]
    assert [line.count("the next tile's") for line in gates] == [0, 0, 0, 1]
    assert all(re.search(r"; p\d fetched \d+ ahead", line) for line in gates)
