"""ONNX's own tests, by its own runner: each operator as the standard has it, small old models too.

A refusal, in one line, is measured; anything else that is not the expected answer is wrong, but for
what is EXPECTED, which is wrong if it passes.
"""

from __future__ import annotations

import functools
import unittest
import warnings

from onnx.backend.base import Backend
from onnx.backend.test.runner import Runner

from tvm_stitch import onnx_backend
from tvm_stitch.errors import StitchError

_ROUNDED = "the answer is rounded to 2e-7 where 0 is right, and may be off by 1e-7"
DRAWN = "the numbers in the file are of another draw"
EXPECTED = {
    "test_dft_inverse_cpu": _ROUNDED,
    "test_dft_inverse_opset19_cpu": _ROUNDED,
    **{
        f"test_bernoulli{kind}{form}_cpu": DRAWN
        for kind in ("", "_double", "_seed")
        for form in ("", "_expanded")
    },
}


_DOWNLOADED = "OnnxBackendRealModelTest"


def tests_of(backend: type[Backend]) -> dict[str, type[unittest.TestCase]]:
    """Return the class of each test by its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows that the tests are about
        found = Runner(backend, __name__).test_cases
    return {
        name: each
        for kind, each in found.items()
        if kind != _DOWNLOADED
        for name in dir(each)
        if name.startswith("test_") and name.endswith("_cpu")
    }


def outcome(test: unittest.TestCase, expected: str | None) -> dict:
    """Return what became of a test; one that is `expected` to fail says why."""
    try:
        test.debug()
    except StitchError as error:
        return {"refused": str(error)}
    except unittest.SkipTest as reason:
        return {"refused": f"skipped: {reason}"}
    except AssertionError as error:
        if expected is not None:
            return {"refused": f"expected: {expected}"}
        return {"wrong": [" ".join(str(error).split())[:300]]}
    return {} if expected is None else {"wrong": ["it is expected to fail, and passes"]}


@functools.cache
def _tests() -> dict[str, type[unittest.TestCase]]:
    return tests_of(onnx_backend.StitchBackend)


def cases(_seed: int) -> list[str]:
    return list(_tests())


def run(case: str) -> dict:
    return outcome(_tests()[case](case), EXPECTED.get(case))
