"""tvm-stitch behind torch.compile:

    torch.compile(module, backend="tvm_stitch", options={"threads": 2})

Options are keywords of `tvm_stitch.compile`, and `strict`: raise where a graph can't be built,
rather than run it eagerly with one warning.
"""

from __future__ import annotations

from tvm_stitch.torch.backend import backend
from tvm_stitch.torch.reporting import Report, report, reset

__all__ = ["Report", "backend", "report", "reset"]
