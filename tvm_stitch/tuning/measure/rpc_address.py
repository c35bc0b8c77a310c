"""Where a tracker is: HOST:PORT."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from tvm_stitch.errors import StitchError

_ANSWERS_S = 10.0


class NoTracker(StitchError):
    """Nothing listens where a tracker should."""


@dataclass(frozen=True)
class Address:
    """A host, by name or number, and its port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read HOST:PORT. Raises: ValueError if it is none."""
        host, colon, port = text.rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise ValueError(f"{text!r} is not HOST:PORT")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pair(self) -> tuple[str, int]:
        return self.host, self.port

    def check(self) -> None:
        """Raise NoTracker if nothing listens there: TVM would try for a minute."""
        try:
            socket.create_connection(self.pair, _ANSWERS_S).close()
        except OSError as error:
            remedy = "start one: python -m tvm.exec.rpc_tracker --host HOST --port PORT"
            raise NoTracker(self, f"no tracker answers ({error})", remedy) from None
