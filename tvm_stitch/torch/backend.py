"""What torch.compile calls: a graph in, a callable out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from torch import fx

from tvm_stitch.errors import StitchError
from tvm_stitch.torch.graph import Graph
from tvm_stitch.torch.reporting import count_graph


@dataclass(frozen=True)
class Options:
    """Keywords of `tvm_stitch.compile`, and whether a graph that can't be built is an error.

    In the folder `cache` models are kept for other processes.
    """

    target: str = "x86"
    threads: int | None = None
    log: str | os.PathLike | None = None
    profile: str | os.PathLike | None = None
    fusion: str = "stitch"
    fallback: str = "refuse"
    cache: str | os.PathLike | None = None
    strict: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Raises: StitchError for an option that there is not."""
        known = [each.name for each in fields(cls)]
        for name in given or {}:
            if name not in known:
                rule, remedy = "tvm_stitch has no such option", f"use some of {', '.join(known)}"
                raise StitchError(f"option {name!r}", rule, remedy)
        return cls(**(given or {}))

    def keywords(self) -> dict[str, Any]:
        """Return those of `tvm_stitch.compile`."""
        return {each.name: getattr(self, each.name) for each in fields(self)
                if each.name != "strict"}  # fmt: skip


def backend(
    module: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping | None = None
) -> Callable[..., Any]:
    """Return a graph as torch.compile is to call it: compiled for each shape at first sight.

    Raises: StitchError for an option that there is not; with `strict`, when it is called, for what
    can't be built.
    """
    del example_inputs  # the first call has real ones
    asked = Options.of(options)
    count_graph()
    return Graph(module, asked.keywords(), asked.strict)
