"""The client's end of a machine that rpc_server.py serves, and the tracker that lends them."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any

from tvm import rpc
from tvm.target import Target

from tvm_stitch.errors import StitchError
from tvm_stitch.profiling.child import Died

from ..log import DeviceKey
from .machine import Lost
from .rpc_address import Address
from .rpc_protocol import CALL, versions

_POLL_S = 0.1  # a session answers one call at a time: so long may another worker's wait
_LENT_S = 5.0  # a server that is free answers in far less


class RpcMachine:
    """A session of a server. `name` says which, in errors."""

    def __init__(self, session: rpc.RPCSession, name: str) -> None:
        self.name = name
        self.usual_ns: dict[int, float] = {}
        try:
            self._call = session.get_function(CALL)
        except (RuntimeError, AttributeError):
            remedy = "start it with: tvm-stitch serve"
            raise StitchError(name, "is a server of TVM's own, without workers", remedy) from None
        self._session = session

    def call(self, **message: Any) -> dict[str, Any]:
        """Return the broker's answer. Raises: Lost, or Died of a worker."""
        try:
            told = json.loads(self._call(json.dumps(message)))
        except RuntimeError as error:  # TVM's errors of a connection
            last = str(error).strip().splitlines()
            raise Lost(last[-1] if last else "it is closed") from None
        if "died" in told:
            raise Died(told["died"], told["log"])
        return told

    def check(self, target: Target, threads: int, device: DeviceKey) -> None:
        """Raise StitchError unless what is measured there stands for this machine's device."""
        told = self.call(do="describe", target=str(target), threads=threads)
        there = {**json.loads(told.pop("device")), **told}
        here = {**json.loads(device.text), **versions()}
        apart = [f"{k} {there.get(k)}, here {v}" for k, v in here.items() if there.get(k) != v]
        if apart:
            remedy = "tune on a machine of the servers' kind"
            raise StitchError(self.name, f"is another machine: {'; '.join(apart)}", remedy)

    def start(self, name: str) -> RpcWorker:
        self.call(do="start", name=name)
        return RpcWorker(self, name)

    def close(self) -> None:
        """End the session, as its last reference goes."""
        self._call = self._session = None


class RpcWorker:
    """A worker of an RpcMachine."""

    def __init__(self, machine: RpcMachine, name: str) -> None:
        self._machine, self._name = machine, name
        self.alive = True

    def ask(self, message: dict[str, object], timeout_s: float) -> dict[str, object]:
        """Send one message and return the answer. Raises: Died as Child.ask, or Lost."""
        end = time.monotonic() + timeout_s
        try:
            self._tell("post", message=message)
            while self.alive and time.monotonic() < end:
                told = self._tell("poll", seconds=_POLL_S)
                if "answer" in told:
                    return told["answer"]
        except Died:
            self.alive = False
            raise
        self.kill()
        raise Died(f"not done in the {timeout_s:.1f} s left to it")

    def pause(self) -> None:
        self._tell("pause")

    def resume(self) -> None:
        self._tell("resume")

    def kill(self) -> None:
        """End it; more than once does no harm, nor if the machine is lost."""
        if self.alive:
            self.alive = False
            with contextlib.suppress(Lost):
                self._tell("kill")

    def _tell(self, do: str, **more: object) -> dict[str, Any]:
        return self._machine.call(do=do, name=self._name, **more)


class Tracker:
    """Lends machines of a key, each a server that no other client has."""

    def __init__(self, address: Address, key: str) -> None:
        self._address, self.key = address, key

    def __str__(self) -> str:
        return f"tracker {self._address}"

    def free(self) -> int:
        """Return how many machines of the key wait. Raises: StitchError without the tracker."""
        self._address.check()
        queues = self._connected().summary()["queue_info"]
        return queues.get(self.key, {"free": 0})["free"]

    def lend(self) -> RpcMachine | None:
        """Return a machine of those that are free, None if another client was faster."""
        if not self.free():
            return None
        before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(_LENT_S)  # TVM's request waits for ever
        try:
            session = self._connected().request(self.key, max_retry=1)
        except (RuntimeError, OSError):
            return None
        finally:
            socket.setdefaulttimeout(before)
        return RpcMachine(session, f"a server of {self.key} at {self}")

    def _connected(self) -> rpc.TrackerSession:
        return rpc.connect_tracker(*self._address.pair)
