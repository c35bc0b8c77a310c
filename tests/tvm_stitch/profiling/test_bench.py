"""The bench: statistics, who runs when, the peers' processes, the command; nothing on speed."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvm_stitch.cli import bench, main
from tvm_stitch.errors import StitchError
from tvm_stitch.profiling import arrays, worker
from tvm_stitch.profiling.child import Child, Died
from tvm_stitch.profiling.harness import Crew, Row, compare
from tvm_stitch.profiling.inputs import random_inputs
from tvm_stitch.profiling.peer import PEERS, Job, Peer
from tvm_stitch.profiling.peers import peak
from tvm_stitch.profiling.peers.hlo import launches
from tvm_stitch.profiling.rounds import Pace, Player, play
from tvm_stitch.profiling.stats import Timing, difference, geometric_mean, summarize
from tvm_stitch.profiling.table import render

X = np.array([1.0, -2.0, 4.0], np.float32)
ROW_US = Timing(median_us=2.0, min_us=1.0, q1_us=1.5, q3_us=2.5, rounds=4, runs=40)


@pytest.fixture
def softmax(tmp_path: Path) -> Path:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"])],
        "softmax",
        [value("x", TensorProto.FLOAT, ["rows", 8])],
        [value("y", TensorProto.FLOAT, ["rows", 8])],
    )
    path = tmp_path / "softmax.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_summary_takes_the_median_of_the_rounds_and_the_least_of_all():
    timing = summarize([[1000, 9000, 3000], [5000], []])
    assert timing == Timing(4.0, 1.0, 3.5, 4.5, rounds=2, runs=4)


def test_summary_of_nothing_is_none():
    assert summarize([[], []]) is None


def test_geometric_mean_of_a_ratio_and_its_inverse_is_one():
    assert geometric_mean([4.0, 0.25]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        pytest.param([X], 0.0, id="same"),
        pytest.param([X + 0.5], 0.125, id="over-the-largest-magnitude"),
        pytest.param([X, X], np.inf, id="one-output-too-many"),
        pytest.param([X[:2]], np.inf, id="other-shape"),
        pytest.param([np.array([1, np.nan, 4], np.float32)], np.inf, id="nan-where-none-should-be"),
    ],
)
def test_difference(got, expected):
    assert difference(got, [X]) == pytest.approx(expected)


def test_difference_accepts_infinities_in_the_same_places():
    special = np.array([np.inf, -np.inf, np.nan, 2.0], np.float32)
    assert difference([special.copy()], [special]) == 0.0


class Clock:
    """Time that passes only while a fake player runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def player(self, name: str, call_s: float, log: list[str], **options) -> Player:
        def measure(runs: int, seconds: float, warm: bool) -> list[int]:
            count = max(1, min(runs, int(seconds / call_s)))
            self.now += (count + warm) * call_s
            log.append(name)
            return [int(call_s * 1e9)] * count

        return Player(name, call_s * 1e9, measure, **options)


def test_each_round_runs_every_player_in_a_new_order():
    clock, log = Clock(), []
    players = [clock.player(name, 0.001, log) for name in "abcd"]
    play(players, 100, Pace(rounds=8), random.Random(0), clock)
    rounds = ["".join(log[i : i + 4]) for i in range(0, len(log), 4)]
    assert {"".join(sorted(each)) for each in rounds} == {"abcd"}
    assert len(rounds) == 8 and len(set(rounds)) > 1


def test_a_player_ten_times_slower_gets_three_runs():
    clock, log = Clock(), []
    fast, slow = clock.player("fast", 0.001, log), clock.player("slow", 0.0101, log)
    play([fast, slow], 100, Pace(), random.Random(0), clock)
    assert slow.runs == 3 and fast.runs > 100


def test_a_yardstick_slows_nobody_down():
    clock, log = Clock(), []
    copy = clock.player("copy", 0.0001, log, yardstick=True)
    ours = clock.player("ours", 0.002, log)
    play([copy, ours], 100, Pace(), random.Random(0), clock)
    assert ours.runs > 3


def test_measuring_ends_with_its_time():
    clock, log = Clock(), []
    players = [clock.player(name, 0.3, log) for name in "ab"]
    play(players, 2.0, Pace(), random.Random(0), clock)
    assert clock.now <= 2.6 and all(player.runs for player in players)


def test_a_player_that_takes_longer_than_is_left_is_not_started():
    clock, log = Clock(), []
    play([clock.player("slow", 5.0, log)], 2.0, Pace(), random.Random(0), clock)
    assert log == []


def test_a_player_that_dies_is_dropped_and_the_others_go_on():
    clock, log = Clock(), []

    def die(*_args: object) -> list[int]:
        raise Died("killed by SIGSEGV")

    dead, other = Player("dead", 1e6, die), clock.player("other", 0.001, log)
    play([dead, other], 10, Pace(rounds=3), random.Random(0), clock)
    assert dead.dropped == "killed by SIGSEGV" and len(other.rounds) == 3


def test_arrays_survive_the_way_between_processes(tmp_path):
    bfloat16 = arrays.dtype_of("bfloat16")
    sent = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(True), "c": X.astype(bfloat16)}
    received = arrays.load(arrays.save(sent, tmp_path, "t"))
    for name, value in sent.items():
        assert received[name].dtype == value.dtype
        np.testing.assert_array_equal(received[name], value)


@pytest.mark.parametrize("shape", [(), (1,), (5, 7)])
def test_an_aligned_copy_sits_at_64_bytes(shape):
    value = np.ones(shape, np.float32)
    copy = arrays.aligned_copy(value)
    assert copy.ctypes.data % 64 == 0 and copy.shape == shape
    np.testing.assert_array_equal(copy, value)


def test_integer_inputs_index_the_table_they_select_from(tmp_path):
    table = helper.make_tensor("table", TensorProto.FLOAT, [3, 2], np.zeros(6))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "embedding",
        [value("ids", TensorProto.INT64, [1000])],
        [value("y", TensorProto.FLOAT, [1000, 2])],
        [table],
    )
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    ids = random_inputs(tmp_path / "m.onnx", {})["ids"]
    assert set(ids.tolist()) == {0, 1, 2}


def test_an_unbound_dimension_is_named_with_the_flag_that_binds_it(softmax):
    with pytest.raises(StitchError, match=r"input x.*rows.*--shape x="):
        random_inputs(softmax, {})


def test_a_shape_for_no_input_is_an_error(softmax):
    with pytest.raises(StitchError, match=r"--shape z.*inputs are x"):
        random_inputs(softmax, {"x": (4, 8), "z": (1,)})


def test_peers_in_processes_of_their_own_answer_and_are_gone_afterwards(softmax):
    with Crew(1) as crew:
        inputs = random_inputs(softmax, {"x": (4, 8)})
        job = Job(softmax, crew.workdir, 1, {"x": (4, 8)})
        pace = Pace(rounds=2, turn_s=0.01)
        rows = compare(crew, job, inputs, ["onnxruntime", "torch"], 60, sets=2, pace=pace)
        pids = [crew.child(name)._process.pid for name in ("onnxruntime", "torch")]
    ort, torch = rows
    assert ort.reason is None
    assert ort.timing.rounds == 2 and ort.apart == 0.0
    assert torch.timing is None
    assert torch.reason in ("no framework op", "the Python package torch is not installed")
    assert not crew.workdir.exists()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_peer_is_stopped_between_its_turns(tmp_path):
    child = Child("onnxruntime", worker.__name__, sorted(os.sched_getaffinity(0))[:1], tmp_path)
    stat = Path(f"/proc/{child._process.pid}/stat")
    child.pause()
    assert _state_becomes(stat, "T")
    child.resume()
    assert _state_becomes(stat, "RSD")
    child.kill()


def _state_becomes(stat: Path, wanted: str) -> bool:
    for _ in range(200):
        if stat.read_text().rpartition(")")[2].split()[0] in wanted:
            return True
        time.sleep(0.01)
    return False


def test_a_peer_that_does_not_answer_is_ended(tmp_path):
    child = Child("onnxruntime", worker.__name__, sorted(os.sched_getaffinity(0))[:1], tmp_path)
    child.pause()
    with pytest.raises(Died, match="not done in"):
        child.ask({"do": "measure"}, 0.05)
    assert not child.alive
    with pytest.raises(Died, match="ended over an earlier message"):
        child.ask({"do": "measure"}, 0.05)


def test_a_peer_that_is_killed_says_by_what(tmp_path):
    child = Child("onnxruntime", worker.__name__, sorted(os.sched_getaffinity(0))[:1], tmp_path)
    os.kill(child._process.pid, signal.SIGKILL)
    with pytest.raises(Died, match="killed by SIGKILL"):
        child.ask({"do": "measure"}, 10)


def test_the_peak_counts_the_multiply_adds_of_all_threads(tmp_path):
    one, two = (peak.prepare(Job(tmp_path / "m", tmp_path, n), "") for n in (1, 2))
    assert two.facts["flops"] == 2 * one.facts["flops"] > 1e6
    assert one.bind({})() == one.facts["flops"]


def test_a_crash_is_told_by_the_last_line_of_its_traceback(tmp_path):
    child = Child("onnxruntime", worker.__name__, sorted(os.sched_getaffinity(0))[:1], tmp_path)
    with pytest.raises(Died, match="KeyError: 'nonsense'"):
        child.ask({"do": "nonsense"}, 60)


def test_more_threads_than_cpus_is_an_error():
    with pytest.raises(StitchError, match="this process may use"):
        Crew(len(os.sched_getaffinity(0)) + 1)


def test_a_missing_peer_that_was_named_is_an_error(monkeypatch):
    monkeypatch.setitem(PEERS, "xla", Peer("xla", "xla", "no_such_package"))
    with pytest.raises(StitchError, match=r"missing peer xla.*no_such_package.*pip install"):
        bench.refuse_missing(["onnxruntime", "xla"])


def test_a_missing_peer_that_was_not_named_is_a_row_with_its_reason(monkeypatch, softmax):
    monkeypatch.setitem(PEERS, "xla", Peer("xla", "xla", "no_such_package"))
    with Crew(1) as crew:
        (row,) = compare(crew, Job(softmax, crew.workdir, 1), {}, ["xla"], 10)
    assert row.reason == "the Python package no_such_package is not installed"


def bench_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    bench.add_parser(parser.add_subparsers())
    return parser


def test_the_command_reads_its_options():
    line = "bench m.onnx --against tvm,xla --shape x=1,128 --shape input.1=2 --threads 1"
    args = bench_parser().parse_args(line.split())
    assert args.against == ["tvm", "xla"] and args.run is bench.run
    assert args.shape == [("x", (1, 128)), ("input.1", (2,))]


def test_a_missing_peer_is_told_in_one_line_with_exit_1(monkeypatch, softmax, capsys):
    monkeypatch.setitem(PEERS, "xla", Peer("xla", "xla", "no_such_package"))
    assert main(["bench", str(softmax), "--against", "xla"]) == 1
    assert capsys.readouterr().err.startswith("tvm-stitch bench: missing peer xla: ")


def test_figures_that_could_not_be_written_are_not_measured(softmax, tmp_path):
    with pytest.raises(StitchError, match="cannot be written"):
        args = ["bench", str(softmax), "--json", str(tmp_path / "no" / "f.json")]
        bench.run(bench_parser().parse_args(args))


@pytest.mark.parametrize("wrong", ["--against tvn", "--shape x", "--shape x=a", "--budget 0"])
def test_bad_usage_exits_with_2(wrong):
    with pytest.raises(SystemExit) as exit_info:
        bench_parser().parse_args(["bench", "m.onnx", *wrong.split()])
    assert exit_info.value.code == 2


def test_the_table_shows_ratios_differences_and_reasons():
    faster = Timing(1.0, 1.0, 1.0, 1.0, rounds=4, runs=40)
    rows = [
        Row("stitch", timing=ROW_US, run_timing=faster, apart=0.0),
        Row("tvm", timing=faster, apart=0.5),
        Row("xla", reason="the table has no row for LSTM"),
    ]
    header, ours, tvm, xla = render(rows).splitlines()
    assert header.split()[0] == "peer" and ours.split()[-2] == "1.00"
    assert tvm.split()[-4:] == ["0.500", "-", "5.0e-01", "!"]
    assert xla == "xla: the table has no row for LSTM"


def test_rows_are_written_as_json():
    row = Row("stitch", timing=ROW_US, apart=0.0, facts={"kernels": 1})
    told = json.loads(json.dumps(row.to_json()))
    assert told["timing"]["median_us"] == 2.0 and told["facts"] == {"kernels": 1}


def test_every_peer_of_the_command_is_known():
    assert set(itertools.chain(*bench.AGAINST.values())) <= set(PEERS)


HLO = """\
HloModule jit_f, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%fused_computation (param_0: f32[8]) -> f32[8] {
  %param_0 = f32[8]{0} parameter(0)
  ROOT %exp = f32[8]{0} exponential(%param_0)
}

%command_buffer (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %loop = f32[8]{0} fusion(%p), kind=kLoop, calls=%fused_computation
  ROOT %out = (f32[8]{0}, s8[4]{0}) custom-call(%loop), custom_call_target="__cublas$gemm"
}

ENTRY %main (a: f32[8]) -> (f32[8], f32[8]) {
  %a = f32[8]{0} parameter(0)
  %call = f32[8]{0} call(%a), to_apply=%command_buffer
  %sort.1 = (f32[8]{0}, s32[8]{0}) sort(%a, %a), dimensions={0}
  %first = f32[8]{0} get-tuple-element(%sort.1), index=0
  ROOT %tuple = (f32[8]{0}, f32[8]{0}) tuple(%call, %first)
}
"""


def test_launches_of_an_hlo_program():
    assert launches(HLO) == {"kernels": 3, "products": 1}


def test_a_gpu_that_is_not_here_is_refused_in_one_line(softmax, capsys):
    assert main(["bench", str(softmax), "--target", "cuda:sm_90", "--shape", "x=4,8"]) == 1
    told = capsys.readouterr().err
    assert "no CUDA device or driver here" in told and told.count("\n") == 1
