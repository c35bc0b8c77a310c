"""What our compiler makes of a chain, against the reference and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnxruntime
import tvm
from onnxruntime.capi import onnxruntime_pybind11_state as errors
from tvm import relax

from tvm_stitch import pipeline, targets
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import import_model

from .chain import Chain, reference

BOUND = 1e-5
HALF_BOUND = 4e-3
NOISE = 8  # times what a unit in the last place of an input, and of each result, does
LANES = 8  # three hardly moved a difference in one graph of 10,000
NEAR = 1e-3  # of the largest result: as far as references may be apart to tell what rounding does
REFUSED_BY_RUNTIME = (
    errors.Fail,
    errors.InvalidArgument,
    errors.InvalidGraph,
    errors.NotImplemented,
    errors.RuntimeException,
)


@dataclass(frozen=True)
class Answer:
    """`wrong`: a line for each output that no reference agrees with; `refused`: why it is."""

    wrong: list[str]
    refused: str | None = None


def check(chain: Chain, threads: int = 2) -> Answer:
    """Compile and run a chain. A refusal of several lines is wrong."""
    try:
        got = _run(chain, threads)
    except StitchError as error:
        text = str(error)
        return Answer([f"not one line: {text}"] if "\n" in text else [], text)
    wanted = _expected(chain, chain.feeds)
    if wanted is None:
        return Answer([])
    lanes = [_perturbed(chain, lane) for lane in range(LANES)]
    allowed = [
        NOISE * max(_apart(lane[n], each) for lane in lanes) for n, each in enumerate(wanted)
    ]
    wrong = _differences(got, wanted, allowed)
    if not wrong or (other := _by_runtime(chain, chain.feeds)) is None:
        return Answer(wrong)
    if not _differences(got, other, allowed):
        return Answer([])  # the evaluator has errors of its own
    # What is nearly 0 of large terms two references see otherwise, of integers too.
    apart = [_apart(*pair) for pair in zip(wanted, other, strict=True)]
    near = all(each <= NEAR * _size(one) for each, one in zip(apart, wanted, strict=True))
    beside = [max(pair) for pair in zip(allowed, apart, strict=True)]
    return Answer(_differences(got, wanted, beside) if near else wrong)


def _run(chain: Chain, threads: int) -> list[np.ndarray]:
    target = targets.resolve("x86", threads)
    imported = import_model(chain.model)
    module, _ = pipeline.lower(imported.mod, target, fusion="stitch", threads=threads)
    machine = relax.VirtualMachine(tvm.compile(module, target), tvm.cpu())
    arrays = [*(chain.feeds[spec.name] for spec in imported.inputs), *imported.weights]
    given = [tvm.runtime.tensor(np.array(array, order="C")) for array in arrays]
    made = machine["main"](*given)
    tensors = [made] if len(imported.outputs) == 1 else list(made)
    return [tensor.numpy() for tensor in tensors]


def _expected(
    chain: Chain,
    feeds: dict[str, np.ndarray],
    moved: Callable[[np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray] | None:
    """Return what the evaluator makes of a chain, or ONNX Runtime; None if neither can."""
    try:
        return reference(chain.model, feeds, moved)
    except RuntimeError:  # it takes the second GroupNormalization for a function of no inputs
        return _by_runtime(chain, feeds)


def _by_runtime(chain: Chain, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """Return what ONNX Runtime makes of it, None if it refuses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(chain.bytes, options)
        return session.run(None, feeds)
    except REFUSED_BY_RUNTIME:
        return None


def _perturbed(chain: Chain, lane: int) -> list[np.ndarray] | None:
    """Return what is expected if inputs, and results of nodes, are a unit in the last place apart.

    The first lane's are all on one side, as a sum of many that is rounded once is. Whole numbers
    stay, which a step would take for others.
    """
    rng = np.random.default_rng(lane)

    def moved(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind != "f":
            return array
        unit = np.finfo(array.dtype).eps
        by = rng.uniform(-1, 1, array.shape) if lane else np.ones(array.shape)
        with np.errstate(all="ignore"):
            apart = (array * (1 + unit * by)).astype(array.dtype)
            return np.where(np.rint(array) == array, array, apart)

    return _expected(chain, {name: moved(each) for name, each in chain.feeds.items()}, moved)


def _size(array: np.ndarray) -> float:
    flat = array.ravel()
    known = np.abs(flat[np.isfinite(flat)]) if array.dtype.kind == "f" else flat[:0]
    return float(known.max()) if known.size else 0.0


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    if one.dtype.kind != "f" or one.shape != other.shape or not one.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
    known = apart[np.isfinite(apart)]
    return float(known.max()) if known.size else 0.0


def _differences(
    got: list[np.ndarray], wanted: list[np.ndarray], allowed: list[float]
) -> list[str]:
    if len(got) != len(wanted):
        return [f"{len(got)} outputs, not {len(wanted)}"]
    found = []
    for place, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            found.append(
                f"output {place}: {one.dtype}{list(one.shape)}, "
                f"not {other.dtype}{list(other.shape)}"
            )
        elif (count := _count(one, other, allowed[place])) > 0:
            found.append(f"output {place}: {count} of {one.size} differ")
    return found


def _count(got: np.ndarray, wanted: np.ndarray, allowed: float) -> int:
    if got.dtype.kind != "f":
        return int((got != wanted).sum())
    one, other = got.astype(np.float64), wanted.astype(np.float64)
    kinds = [np.where(np.isnan(a), 2, np.where(np.isinf(a), np.sign(a), 0)) for a in (one, other)]
    finite = kinds[1] == 0
    size = np.abs(np.where(finite, other, 0))
    bound = HALF_BOUND if got.dtype == np.float16 else BOUND
    limit = bound * (size + size.max(initial=0)) + allowed + float(np.finfo(got.dtype).tiny)
    apart = np.abs(np.where(finite, one, 0) - np.where(finite, other, 0))
    return int(((kinds[0] != kinds[1]) | (finite & ~(apart <= limit))).sum())
