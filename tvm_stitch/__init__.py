"""tvm-stitch: operator fusion for Apache TVM.

TVM takes seconds to import, so it is, on the first use of a name below. The Relax pipeline
"tvm_stitch" is registered once both packages are imported, in either order.
"""

from __future__ import annotations

import importlib
from typing import Any

from tvm_stitch import registration
from tvm_stitch.errors import StitchError

__version__ = "0.1.0"
__all__ = [
    "InferenceSession",
    "Model",
    "Report",
    "Specialised",
    "StitchError",
    "advise",
    "compile",
    "explain",
    "load",
    "plans",
    "verify",
]

_HOMES = {
    "InferenceSession": "tvm_stitch.open_shapes.inference_session",
    "Model": "tvm_stitch.runtime.model",
    "Report": "tvm_stitch.reports.report",
    "Specialised": "tvm_stitch.open_shapes.specialised",
    "advise": "tvm_stitch.api",
    "compile": "tvm_stitch.api",
    "explain": "tvm_stitch.api",
    "load": "tvm_stitch.runtime.library",
    "plans": "tvm_stitch.api",
    "verify": "tvm_stitch.api",
}

registration.register_when_relax_is_imported()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
