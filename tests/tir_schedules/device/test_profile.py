"""CpuDevice profiles: what a file must hold, whose machine it is, and how it is measured."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from support.kernels import stitch_case as sc
from tir_schedules.device import profile as profiles
from tir_schedules.device.profile import OP_KINDS, Bandwidth, Profile, ProfileError
from tir_schedules.host import available_cpus, host_name
from tvm_stitch.build import Request, understand
from tvm_stitch.cli import main
from tvm_stitch.profiling.calibration import cpu, cpu_kernels, kernel_call

PROFILE = Profile(
    name=host_name(),
    mcpu=sc.device().mcpu,
    vector_bytes=sc.device().vector_bytes,
    command="tvm-stitch calibrate",
    bandwidths=(
        Bandwidth("L1", 1, 200.0),
        Bandwidth("L2", 1, 100.0),
        Bandwidth("L3", 1, 60.0),
        Bandwidth("L3", 2, 110.0),
        Bandwidth("memory", 1, 20.0, 18.0, 30.0),
        Bandwidth("memory", 2, 35.0, 30.0, 50.0),
    ),
    region_ns={2: 2000.0, 8: 5000.0},
    barrier_ns={2: 900.0, 8: 2100.0},
    handover_ns={2: 0.05},
    call_ns=250.0,
    fold_ns=9.0,
    aliasing_ns=-0.5,
    strip_bytes=640.0,
    op_ns=dict.fromkeys(OP_KINDS, 1.5),
    thresholds=sc.device().profile.thresholds,
    assumed={"thresholds": "by benchmark"},
)


def spoiled(path: list, value: object) -> dict:
    """Return the profile's JSON with one value replaced, or removed if `value` is `...`."""
    data = json.loads(json.dumps(PROFILE.to_json()))
    place = data
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


def test_a_profile_survives_its_file(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(PROFILE.to_json()))
    assert profiles.load_profile(path) == PROFILE


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        (["format"], 1, "format 1, this release reads 7"),
        (["device", "name"], ..., "device name is missing"),
        (["device", "vector_bytes"], 64.5, "device vector_bytes is not int"),
        (["extra"], 1, "the profile extra is unknown"),
        (["call_ns"], 0, "call_ns is not a positive number"),
        (["aliasing_ns"], float("inf"), "aliasing_ns is not a number"),
        (["call_ns"], True, "the profile call_ns is not float"),
        (["call_ns"], float("nan"), "call_ns is not a positive number"),
        (["op_ns", "exp"], -1.0, "op_ns exp is not a positive number"),
        (["op_ns", "exp"], ..., "op_ns exp is missing"),
        (["thresholds", "tiles"], 0, "thresholds tiles is not a positive number"),
        (["thresholds", "tiles"], 1.5, "thresholds tiles is not int"),
        (["thresholds", "queued_bytes"], ..., "thresholds queued_bytes is missing"),
        (["strip_bytes"], 0, "strip_bytes is not a positive number"),
        (["assumed", "thresholds"], 3, "assumed thresholds is not str"),
        (["gb_per_s"], [], "gb_per_s is empty"),
        (["gb_per_s", 0, "level"], "L9", "gb_per_s has a row of L9, 1 threads"),
        (["gb_per_s", 0, "stream"], 3.0, "gb_per_s stream is unknown"),
        (["gb_per_s", 4, "copy"], ..., "gb_per_s copy is missing"),
        (["gb_per_s", 1, "level"], "L1", "gb_per_s: no row of L2 at 1 thread"),
        (["gb_per_s", 3, "threads"], 1, "gb_per_s: two rows of one level"),
        (["handover_ns"], ..., "the profile handover_ns is missing"),
        (["handover_ns", "2"], 0, "handover_ns 2 is not a positive number"),
        (["region_ns", "1"], 5.0, "region_ns 1 is not a count of threads from 2 on"),
    ],
)
def test_a_spoiled_profile_is_refused_by_its_place(path, value, rule):
    with pytest.raises(ProfileError) as caught:
        Profile.from_json(spoiled(path, value), "p.json")
    assert caught.value.given == "p.json"
    assert caught.value.rule == rule
    assert "tvm-stitch calibrate" in caught.value.remedy


@pytest.mark.parametrize(
    ("content", "rule"),
    [(None, "No such file"), (b"[1]", "is not an object"), (b"{", "not JSON"), (b"\xff", "text")],
)
def test_a_file_that_is_no_profile_is_refused(tmp_path, content, rule):
    path = tmp_path / "profile.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProfileError, match=rule):
        profiles.load_profile(path)


def test_figures_are_those_of_the_largest_measured_count_within_reach():
    assert [PROFILE.bandwidth("L3", count).read for count in (1, 2, 5)] == [60.0, 110.0, 110.0]
    assert [PROFILE.region(count) for count in (1, 2, 7, 8)] == [0.0, 2000.0, 2000.0, 5000.0]
    assert [PROFILE.handover(count) for count in (1, 2, 3)] == [0.0, 0.05, 0.05]


def test_a_profile_of_another_machine_is_refused():
    device = sc.device()
    assert profiles.refuse_cpu(PROFILE, device.mcpu, device.vector_bytes) is None
    for other in (
        replace(PROFILE, name="Some Other CPU"),
        replace(PROFILE, mcpu="z80"),
        replace(PROFILE, vector_bytes=PROFILE.vector_bytes * 2),
    ):
        assert profiles.refuse_cpu(other, device.mcpu, device.vector_bytes) is not None


@pytest.mark.parametrize("width", [16, 32, 64])
def test_every_device_has_a_shipped_profile(width):
    shipped = profiles.default_profile("a-cpu-nobody-has", width)
    assert shipped.vector_bytes == width
    assert {(row.level, row.threads) for row in shipped.bandwidths} >= {("memory", 1)}


@pytest.mark.long
@pytest.mark.parametrize("threads", [min(2, available_cpus())])
def test_calibrate_measures_and_writes_what_it_prints(threads, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cpu, "_ROUND_S", 1e-4)
    monkeypatch.setattr(cpu, "_ROUNDS", 1)
    monkeypatch.setattr(cpu, "_sizes", lambda _device: dict.fromkeys(profiles.LEVELS, 1 << 16))
    path = tmp_path / "here.json"
    assert main(["calibrate", "--threads", str(threads), "-o", str(path)]) == 0
    profile = profiles.load_profile(path)
    assert profiles.refuse_cpu(profile, sc.device().mcpu, sc.device().vector_bytes) is None
    assert profile.command == f"tvm-stitch calibrate --threads {threads}"
    assert sorted(profile.handover_ns) == sorted(profile.region_ns) == list(range(2, threads + 1))
    assert capsys.readouterr().out.splitlines() == cpu.describe(profile)


def test_calibrate_refuses_what_it_cannot_do(tmp_path, capsys):
    assert main(["calibrate", "--threads", "100000"]) == 1
    assert main(["calibrate", "-o", str(tmp_path / "no" / "p.json")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize("threads", [2, 3])
def test_barriers_are_measured_on_kernels_that_have_them(threads):
    counts = []
    for rounds in cpu._PHASES:
        func = cpu_kernels.phases(threads, rounds)
        device = kernel_call.eager_device(threads)
        plan = kernel_call.planned(func, device, cpu_kernels.parallel(True))
        assert plan.parallel
        counts.append(plan.barriers)
    assert counts[1] >= counts[0] + 4


def test_a_given_profile_decides_the_layout_of_weights(tmp_path):
    """Rows a page apart get wider panels where a profile says that they collide."""
    g = sc.zoo.graph.Graph("product")
    y = g.op("MatMul", g.input("x", (64, 1024)), g.weight("w", (1024, 1024)))
    g.output(y, "y", (64, 1024))
    widths = []
    for collision_ns in (0.0, 10.0):
        own = sc.device()
        path = tmp_path / "own.json"
        profile = replace(own.profile, name=host_name(), mcpu=own.mcpu, aliasing_ns=collision_ns)
        path.write_text(json.dumps(profile.to_json()))
        asked = understand(Request(g.model(), profile=path, threads=2))
        widths.append(asked.imported.weights[0].shape[-1])
    assert widths[0] < widths[1]
