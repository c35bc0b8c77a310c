"""The keywords that compile, explain, plans, verify and advise have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict


class ModelOptions(TypedDict, total=False):
    """Which shapes, threads and figures to compile a model for; `tvm_stitch.compile` tells."""

    shapes: Mapping[str, Sequence[int]] | None
    values: Mapping[str, object] | None
    fallback: str
    log: str | os.PathLike | None
    profile: str | os.PathLike | None
    threads: int | None


class CompileOptions(ModelOptions, total=False):
    """The same, how to fuse, and after how many rewrites to stop."""

    fusion: str
    fuel: int | None
