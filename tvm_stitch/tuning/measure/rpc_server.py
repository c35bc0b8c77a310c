"""A server of TVM's RPC tracker that starts workers on its machine and passes messages to them.

A session of TVM's RPC answers one call at a time, and is not used again once its process crashed.
So candidates run in workers, and a call only posts a message to one, or looks for an answer.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

from tvm import rpc
from tvm.target import Target
from tvm_ffi import register_global_func

from tir_schedules.backend import device_of
from tvm_stitch.profiling.answering import end_with_parent
from tvm_stitch.profiling.child import Child, Died

from ..log.fingerprint import device_key
from .machine import WORKER
from .rpc_address import Address
from .rpc_protocol import CALL, versions


class Broker:
    """The workers of a session, by the names that its client gives them."""

    def __init__(self) -> None:
        self._workers: dict[str, Child] = {}
        actions = (self.describe, self.start, self.post, self.poll, self.pause, self.resume)
        self._actions = {action.__name__: action for action in (*actions, self.kill)}

    def call(self, text: str) -> str:
        """Do what a message says; a worker that ended is an answer."""
        message = json.loads(text)
        try:
            told = self._actions[message.pop("do")](**message)
        except Died as death:
            told = {"died": str(death), "log": death.log}
        return json.dumps(told or {})

    def describe(self, target: str, threads: int) -> dict[str, Any]:
        """Tell what decides whether what is measured here stands for another machine."""
        device = device_of(Target(target), threads)
        return {"device": device_key(device).text, **versions()}

    def start(self, name: str) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        self._workers[name] = Child(name, WORKER, cpus, Path.cwd())

    def post(self, name: str, message: dict) -> None:
        self._workers[name].post(message)

    def poll(self, name: str, seconds: float) -> dict[str, Any]:
        answer = self._workers[name].poll(seconds)
        return {} if answer is None else {"answer": answer}

    def pause(self, name: str) -> None:
        self._workers[name].pause()

    def resume(self, name: str) -> None:
        self._workers[name].resume()

    def kill(self, name: str) -> None:
        self._workers.pop(name).kill()


def register() -> None:
    """Let sessions of this process call a broker, and let them end with it."""
    # A session is a fork of this process, whose functions it has: Python 3.14 starts afresh.
    multiprocessing.set_start_method("fork", force=True)
    end_with_parent()
    brokers: list[Broker] = []

    def call(text: str) -> str:
        if not brokers:  # in a session of its own: its parent is the server
            end_with_parent()
            brokers.append(Broker())
        return brokers[0].call(text)

    register_global_func(CALL, call, override=True)


def serve(tracker: Address, key: str, host: str, port: int) -> None:
    """Serve until interrupted. Raises: StitchError if the tracker can't be reached."""
    tracker.check()
    server = rpc.Server(
        host,
        port,
        port + 100,
        tracker_addr=tracker.pair,
        key=key,
        server_init_callback=register,
    )
    print(f"serving {key} at {host}:{server.port} for {tracker}; Ctrl-C ends it", file=sys.stderr)
    try:
        server.proc.join()
    except KeyboardInterrupt:
        server.terminate()
