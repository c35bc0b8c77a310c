"""Whether one kernel computes, of given arrays, what its operators do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_stitch.verification.direct import DirectKernel
from tvm_stitch.verification.judge import worst_of
from tvm_stitch.verification.reference import References
from tvm_stitch.verification.samples.poison import LARGE, NAN

Arrays = list[np.ndarray]


def compare(
    references: References, group: str, inputs: Sequence[np.ndarray], results: Arrays
) -> str | None:
    """Return what is wrong with the results of the kernel of a group, None if nothing is."""
    worst = worst_of(
        results,
        references.run(group, inputs),
        [str(array.dtype) for array in results],
        lambda: references.alternatives(group, inputs),
    )
    return None if worst is None else str(worst)


def try_kernel(
    kernel: DirectKernel,
    references: References,
    group: str,
    inputs: Sequence[np.ndarray],
    threads: int,
) -> tuple[Arrays, str | None]:
    """Call a kernel by itself, on `threads` and on one; return its results and what is wrong."""
    results = kernel.run(inputs, threads, NAN)
    problem = differences(results, kernel.run(inputs, 1, LARGE))
    return results, problem or compare(references, group, inputs, results)


def differences(results: Arrays, again: Arrays) -> str | None:
    """Return how results on one thread, in other memory, are not what they were; None if they are.

    A kernel's results depend on neither.
    """
    for number, (one, other) in enumerate(zip(results, again, strict=True)):
        nan, other_nan = np.not_equal(one, one), np.not_equal(other, other)
        same = (one == other) | (nan & other_nan)
        if not same.all():
            place = np.unravel_index(int(np.argmin(same)), same.shape)
            at = ", ".join(map(str, place))
            return (
                f"result {number} at [{at}] is {one[place]}, and {other[place]} on one thread "
                f"in memory that held other numbers; {int((~same).sum())} differ"
            )
    return None
