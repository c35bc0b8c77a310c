"""Whether records refer to what came before them: a log's rows, an export's lines."""

from __future__ import annotations

from .trial import DeviceKey, PlanChoice, Record, Trial, Workload


class References:
    """The workloads and devices met so far."""

    def __init__(self) -> None:
        self._workloads: set[str] = set()
        self._devices: set[str] = set()

    def meet(self, record: Record) -> None:
        """Raise ValueError if a record refers to a workload or device that was not met."""
        if isinstance(record, Workload):
            self._workloads.add(record.key)
        elif isinstance(record, DeviceKey):
            self._devices.add(record.key)
        elif isinstance(record, Trial) and record.workload not in self._workloads:
            raise ValueError(f"its workload {record.workload} is not there")
        elif isinstance(record, (Trial, PlanChoice)) and record.device not in self._devices:
            raise ValueError(f"its device {record.device} is not there")
