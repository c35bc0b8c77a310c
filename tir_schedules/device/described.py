"""What passes may know of any machine that schedules are made for."""

from __future__ import annotations

from typing import Protocol


class Measured(Protocol):
    """What a machine was measured to take: a profile, of a kind that its backend knows."""

    name: str  # of the machine
    command: str  # that measured


class Device(Protocol):
    """A machine of some kind of targets; what else it is, its backend knows."""

    kind: str  # of TVM's target

    @property
    def l2_bytes(self) -> int:
        """How much of what one kernel makes the next finds close by."""

    def deciding(self) -> Device:
        """Return the device for which is decided what shows in results."""
