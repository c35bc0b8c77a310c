"""Call a kernel of a compiled model by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import tirx

from tvm_stitch.runtime.buffers import view
from tvm_stitch.runtime.dtypes import numpy_dtype
from tvm_stitch.verification.samples.poison import poison, poison_thread, workspaces_of


@dataclass(frozen=True)
class DirectKernel:
    """A kernel to call on arrays.

    `results` are the shapes and dtypes of its results, `places` the operands that they are written
    over, -1 for none. `run_on` sets the threads that run it, `source` is what it was built from.
    """

    call: Callable[..., None]
    run_on: Callable[[int], int]
    results: tuple[tuple[tuple[int, ...], str], ...]
    places: tuple[int, ...]
    source: tirx.PrimFunc

    def run(self, inputs: Sequence[np.ndarray], threads: int, byte: int) -> list[np.ndarray]:
        """Return the results on copies of the inputs, in memory that was full of `byte`."""
        given = [_tensor(array.shape, str(array.dtype)) for array in inputs]
        for (_, memory), array in zip(given, inputs, strict=True):
            memory[...] = array
        fresh = [
            _tensor(*kind)
            for kind, place in zip(self.results, self.places, strict=True)
            if place < 0
        ]
        for _, memory in fresh:
            poison(memory, byte)
        before = self.run_on(threads)
        poison_thread(byte, workspaces_of(self.source))
        self.call(*(tensor for tensor, _ in (*given, *fresh)))
        self.run_on(before)
        rest = iter(fresh)
        return [(given[place] if place >= 0 else next(rest))[1] for place in self.places]


def _tensor(shape: Sequence[int], dtype: str) -> tuple[tvm.runtime.Tensor, np.ndarray]:
    """Return a tensor and its memory as an array."""
    tensor = tvm.runtime.empty(tuple(shape), dtype)
    return tensor, view(tensor, tuple(shape), numpy_dtype(dtype))
