"""What both ends of a connection must agree on."""

from __future__ import annotations

import importlib.metadata

CALL = "tvm_stitch.tuning.call"  # a server's one function: JSON in, JSON out


def versions() -> dict[str, str]:
    """Return what is compared before anything is measured: kernels travel as TVM writes them."""
    return {name: importlib.metadata.version(name) for name in ("tvm-stitch", "apache-tvm")}
