"""Targets: this machine, others, and what is refused."""

from __future__ import annotations

import os
import re

import pytest
import tvm
from tvm import te
from tvm.target import Target

from tir_schedules import host
from tir_schedules.device import CpuDevice
from tir_schedules.device import cpu as device
from tvm_stitch import targets
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import cpu_features


def test_x86_is_this_machine():
    target = targets.resolve("x86", 3)
    config = target.export()
    assert config["mcpu"] == host.host_mcpu()
    assert config["num-cores"] == 3
    assert not cpu_features.missing(cpu_features.required(device.llvm_features(target)))


def test_a_feature_the_machine_hides_is_switched_off(monkeypatch):
    flags = cpu_features.machine_flags() - {"avx2"}
    monkeypatch.setattr(cpu_features, "machine_flags", lambda: flags)
    target = targets.resolve("x86", 1)
    assert "-avx2" in [str(name) for name in target.export()["mattr"]]
    assert "avx2" not in device.llvm_features(target)
    assert "avx2" in targets.machine().hidden_features


@pytest.mark.parametrize(
    ("spec", "vector_bytes"),
    [
        ("x86-64", 16),
        ("x86-64-v3", 32),
        ("x86-64-v4", 64),
        ("skylake", 32),
        ('{"kind": "llvm", "mcpu": "haswell"}', 32),
        ({"kind": "llvm", "mcpu": "x86-64-v4"}, 64),
        (Target({"kind": "llvm", "mcpu": "x86-64-v2"}), 16),
        ("llvm", 16),
    ],
)
def test_other_cpus_have_their_vectors_and_careful_caches(spec, vector_bytes):
    found = CpuDevice.detect(targets.resolve(spec, 2), 2)
    assert found.vector_bytes == vector_bytes
    assert found.l1_bytes <= found.l2_bytes <= found.l3_bytes
    assert found.threads == 2


@pytest.mark.parametrize(("shared", "mib"), [("0-1", 64), ("0", 32), ("0-7,64-71", 480)])
def test_a_huge_l3_counts_as_far_as_its_cpus_may_fill_it(monkeypatch, tmp_path, shared, mib):
    entries = {"level": "3", "type": "Unified", "size": "491520K", "shared_cpu_list": shared}
    monkeypatch.setattr(host, "_read", lambda path: entries.get(path.name, ""))
    monkeypatch.setattr(host.Path, "glob", lambda *_: [tmp_path / "index3"])
    assert host.host_caches.__wrapped__()[2] == mib << 20


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("pentium-9", "neither a target nor a CPU LLVM knows"),
        ('{"kind": "llvm", "mcpu": "pentium-9"}', "LLVM knows no CPU pentium-9"),
        ('{"kind": "llvm", "bogus": 1}', "Unknown config option 'bogus'"),
        ('{"kind": ', "not JSON"),
        ("[1]", "neither a target"),
        ({"kind": "opencl"}, "not a target of this release"),
        ({"mcpu": "skylake"}, "not a target of this release"),
        ("cuda", "no CUDA device or driver here"),
        ("cuda:sm_35", "no figures of sm_35; name one of sm_80, sm_86, sm_89, sm_90"),
        ({"kind": "cuda", "arch": "sm_90", "bogus": 1}, "Unknown config option 'bogus'"),
        ("", "neither a target"),
    ],
)
def test_an_unknown_target_is_refused(spec, told):
    with pytest.raises(StitchError) as raised:
        targets.resolve(spec, 1)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_threads_must_be_positive():
    with pytest.raises(StitchError, match="threads=0"):
        targets.resolve("x86", 0)


def test_the_cpus_are_those_of_the_affinity():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert host.available_cpus() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        pytest.param({"/sys/fs/cgroup/a/cpu.max": "150000 100000"}, 2, id="v2"),
        pytest.param({"/sys/fs/cgroup/cpu.max": "100000 100000"}, 1, id="v2-parent"),
        pytest.param({"/sys/fs/cgroup/a/cpu.max": "max 100000"}, 0, id="no-quota"),
        pytest.param(
            {
                "/proc/self/cgroup": "4:cpu,cpuacct:/b\n0::/",
                "/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us": "300000",
                "/sys/fs/cgroup/cpu/b/cpu.cfs_period_us": "100000",
            },
            3,
            id="v1",
        ),
        pytest.param({"/proc/self/cgroup": "garbage"}, 0, id="unreadable"),
    ],
)
def test_the_cgroups_quota_caps_the_cpus(files, cpus, monkeypatch):
    files = {"/proc/self/cgroup": "0::/a", **files}
    monkeypatch.setattr(host, "_read", lambda path: files.get(str(path), ""))
    assert host._cgroup_cpus() == cpus


def test_every_function_of_a_library_begins_at_a_cache_line():
    x = te.placeholder((1600,), "float32")
    func = te.create_prim_func([x, te.compute(x.shape, lambda i: x[i] * 2.0)])
    module = tvm.IRModule({name: func.with_attr("global_symbol", name) for name in "fg"})
    assembly = tvm.compile(module, target=targets.resolve("x86")).mod.inspect_source("asm")
    begins = re.findall(r"\.p2align\t(\d)[^\n]*\n\t\.type\t\S+@function", assembly)
    assert len(begins) == assembly.count("@function") > 2 and {*begins} == {"6"}


def test_a_target_keeps_what_its_user_says_to_llvm():
    own = {"kind": "llvm", "mcpu": "x86-64-v3", "cl-opt": ["-unroll-threshold:uint=8"]}
    assert [*targets.resolve(own).export()["cl-opt"]] == own["cl-opt"]
