"""Machines of a tracker: two servers on loopback, of which one is killed in the middle."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time

import onnx
import psutil
import pytest
import zoo

from support.tuning.kernels import TARGET, device, softmax
from tir_schedules.device import cpu
from tir_schedules.host import host_caches
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.cli import main
from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.log import DeviceKey
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.fleet import Fleet
from tvm_stitch.tuning.measure.outcome import Pace, Patience
from tvm_stitch.tuning.measure.rpc_address import Address, NoTracker
from tvm_stitch.tuning.measure.rpc_machine import Tracker
from tvm_stitch.tuning.measure.subject import KernelSubject

KEY, HOST = "zen.4", "127.0.0.1"
PACE = Pace(rounds=2, slice_ns=20_000)
STARTS_S = 120.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return found.getsockname()[1]


def started(*arguments: object) -> subprocess.Popen:
    command = [sys.executable, "-m", *map(str, arguments)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, start_new_session=True, **quiet)


def ended(process: subprocess.Popen) -> None:
    """Kill a process outright: what it started ends with it."""
    started = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    assert not psutil.wait_procs(started, timeout=10)[1]


def until(true) -> None:
    end = time.monotonic() + STARTS_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def answers(address: Address) -> bool:
    try:
        address.check()
    except StitchError:
        return False
    return True


@pytest.fixture(autouse=True)
def own_caches(monkeypatch):
    """Servers know this machine's caches, not those that the tests take for all machines."""
    monkeypatch.setattr(cpu, "host_caches", host_caches)


@pytest.fixture(scope="module")
def address():
    found = Address(HOST, free_port())
    ports = ("--port", found.port, "--port-end", found.port + 1)  # it ends at 9199 by default
    process = started("tvm.exec.rpc_tracker", "--host", HOST, *ports)
    until(lambda: answers(found))
    yield found
    for each in [*psutil.Process(process.pid).children(recursive=True), process]:
        each.kill()
    process.wait()


@pytest.fixture(scope="module")
def servers(address):
    where = ("--tracker", address, "--key", KEY, "--port", free_port())
    made = [started("tvm_stitch.cli", "serve", *where) for _ in range(2)]
    tracker = Tracker(address, KEY)
    until(lambda: tracker.free() == 2)
    yield made
    for each in made:
        if each.poll() is None:
            ended(each)


def test_another_machine_is_refused_with_what_differs(address, servers):
    there = device_key(device(threads=2))
    fleet = Fleet(Tracker(address, KEY), TARGET, 1, DeviceKey(there.key, there.text))
    with fleet, pytest.raises(StitchError, match=r"is another machine: threads 1, here 2; tune"):
        fleet.take(KernelSubject(Candidates.of(softmax(), device())), seed=1)


def test_a_model_is_tuned_by_a_tracker(address, servers, tmp_path, capsys):
    model, log = tmp_path / "softmax.onnx", tmp_path / "tuning.db"
    onnx.save(zoo.subgraph("softmax"), model)
    where = ["--tracker", str(address), "--key", KEY]
    arguments = ["tune", str(model), "--log", str(log), "--trials", "4", "--threads", "1"]
    assert main([*arguments, *where]) == 0
    assert "times as fast" in capsys.readouterr().out


@pytest.mark.long
def test_what_a_killed_server_had_is_measured_by_the_other(address, servers):
    here = device(threads=1)  # a worker a machine
    made, rng = Candidates.of(softmax(), here), random.Random(5)
    space = (made.space.sample(rng) for _ in range(1000))
    wanted = [*dict.fromkeys(d for d in space if not isinstance(made.plan(d), str))][:40]
    with Fleet(Tracker(address, KEY), TARGET, 1, device_key(here), PACE) as fleet:
        fleet.take(KernelSubject(made), seed=1)
        assert len(fleet.crews) == 2
        first = fleet.measure(wanted[:2])
        fleet.renew()
        assert not any(child.alive for crew in fleet.crews for child in crew.children)
        first += fleet.measure(wanted[2:4])
        threading.Timer(0.5, ended, [servers[0]]).start()
        rest = fleet.measure(wanted[4:])
        assert len(fleet.crews) == 1
        ended(servers[1])
        fleet._patience = Patience(join=1.0)
        with pytest.raises(StitchError, match=r"has no server of zen\.4 that is free; start one"):
            fleet.measure(wanted[:1])
    assert [each.decisions for each in first + rest] == wanted
    assert [each.error for each in first + rest] == [None] * len(wanted)
    assert all(each.ns > 0 and each.default_ns > 0 for each in first + rest)


def test_without_its_tracker_a_fleet_goes_on_with_the_machines_it_has():
    fleet = Fleet(Tracker(Address(HOST, free_port()), KEY), TARGET, 1, device_key(device(1)))
    with pytest.raises(NoTracker):
        fleet._lent()
    fleet.crews = [object()]
    assert fleet._lent() is None


@pytest.mark.parametrize("command", ["serve", "tune"])
def test_a_tracker_that_is_not_there_is_one_line(command, tmp_path, capsys):
    model = tmp_path / "softmax.onnx"
    onnx.save(zoo.subgraph("softmax"), model)
    own = [str(model), "--log", str(tmp_path / "a.db")] if command == "tune" else []
    where = ["--tracker", f"{HOST}:{free_port()}", "--key", KEY]
    assert main([command, *own, *where]) == 1
    error = capsys.readouterr().err
    assert "no tracker answers" in error and error.count("\n") == 1


@pytest.mark.parametrize("text", ["", "host", "host:", ":9190", "host:0", "host:65536", "host:x"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        Address.parse(text)


@pytest.mark.parametrize("given", [["--key", "a"], ["--tracker", "h:1"]])
def test_a_tracker_has_a_key(given, tmp_path, capsys):
    assert main(["tune", "model.onnx", "--log", str(tmp_path / "a.db"), *given]) == 1
    assert "says nothing without" in capsys.readouterr().err
