"""What both ends of a connection must agree on."""

from __future__ import annotations

import tvm

import tvm_stitch

CALL = "tvm_stitch.tuning.call"  # a server's one function: JSON in, JSON out


def versions() -> dict[str, str]:
    """Return what is compared before anything is measured: kernels travel as TVM writes them."""
    return {"tvm-stitch": tvm_stitch.__version__, "apache-tvm": tvm.__version__}
