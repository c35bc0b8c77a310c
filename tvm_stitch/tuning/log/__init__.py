"""What was measured, kept in SQLite or PostgreSQL: data, checked as it is read, never run."""

from .exchange import export_json, import_json
from .store import Log
from .trial import DeviceKey, PlanChoice, Trial, Workload

__all__ = ["DeviceKey", "Log", "PlanChoice", "Trial", "Workload", "export_json", "import_json"]
