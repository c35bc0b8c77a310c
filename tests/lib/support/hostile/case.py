"""One hostile model by its number: it compiles, or is refused in one line, within limits."""

from __future__ import annotations

import contextlib
import math
import random
import resource
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

import tvm_stitch
from support.hostile.bytes import damaged
from support.hostile.seeds import seeds
from support.hostile.structure import mutated
from tvm_stitch.build import Request, lower
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.artifact import Tensor
from tvm_stitch.runtime.dtypes import numpy_dtype
from tvm_stitch.runtime.model import Model

SECONDS = 20
GROWTH_BYTES = 2 << 30  # of the address space, beyond what the process has
FED_BYTES = 16 << 20  # models of larger inputs or outputs are not run
WHOLE_SHARE = 4  # one in so many is compiled as users do, and run; the others are lowered


def outcome(number: int) -> str:
    """Return what became of the model: how far it came, or the line that refuses it.

    Raises: AssertionError if the refusal is no single line, and whatever else comes out.
    """
    rng = random.Random(number)
    model, other = rng.choice(seeds()), rng.choice(seeds())
    whole = rng.randrange(WHOLE_SHARE) == 0
    with tempfile.TemporaryDirectory() as folder, limits():
        path = Path(folder) / "m.onnx"
        if rng.random() < 0.25:
            path.write_bytes(damaged(model.SerializeToString(), other.SerializeToString(), rng))
            given = path
        else:
            given = mutated(model, other, rng)
            if rng.random() < 0.5:
                path.write_bytes(given.SerializeToString())
                given = path
        try:
            return _whole(given, number) if whole else _lowered(given)
        except StitchError as error:
            message = str(error)
            assert "\n" not in message and message.isprintable(), message
            return message


def _lowered(given: Path | onnx.ModelProto) -> str:
    lower(Request(given, threads=1))
    return "lowered"


def _whole(given: Path | onnx.ModelProto, number: int) -> str:
    model = tvm_stitch.compile(given, threads=1)
    if model.report.peak_bytes + _bytes(model) > FED_BYTES:
        return "compiled"
    rng = np.random.default_rng(number)
    model.run({each.name: _numbers(each, rng) for each in model.meta.inputs})
    return "ran"


def _bytes(model: Model) -> int:
    tensors = (*model.meta.inputs, *model.meta.outputs)
    return sum(math.prod(t.shape) * numpy_dtype(t.dtype).itemsize for t in tensors)


def _numbers(tensor: Tensor, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of which some lie outside the axes that they may index."""
    dtype = numpy_dtype(tensor.dtype)
    ends = (0, 2) if dtype.kind in "bu" else (-3, 4)
    return rng.integers(*ends, tensor.shape).astype(dtype)


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Let the process live for `SECONDS` and grow by `GROWTH_BYTES`; the alarm kills it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + GROWTH_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
