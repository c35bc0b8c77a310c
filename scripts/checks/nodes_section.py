"""ONNX's own node tests, by its own runner: each operator as the standard has it.

A refusal, in one line, is measured; anything else that is not the expected answer is wrong, but for
what is EXPECTED, which is wrong if it passes.
"""

from __future__ import annotations

import functools
import unittest
import warnings

from onnx.backend.test.runner import Runner

from tvm_stitch import onnx_backend
from tvm_stitch.errors import StitchError

_ROUNDED = "the answer is rounded to 2e-7 where 0 is right, and may be off by 1e-7"
EXPECTED = {"test_dft_inverse_cpu": _ROUNDED, "test_dft_inverse_opset19_cpu": _ROUNDED}


@functools.cache
def _tests() -> type[unittest.TestCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows that the tests are about
        return Runner(onnx_backend.StitchBackend, __name__).test_cases["OnnxBackendNodeModelTest"]


def cases(_seed: int) -> list[str]:
    return [name for name in dir(_tests()) if name.startswith("test_") and name.endswith("_cpu")]


def run(case: str) -> dict:
    try:
        _tests()(case).debug()
    except StitchError as error:
        return {"refused": str(error)}
    except unittest.SkipTest as reason:
        return {"refused": f"skipped: {reason}"}
    except AssertionError as error:
        if case in EXPECTED:
            return {"refused": f"expected: {EXPECTED[case]}"}
        return {"wrong": [" ".join(str(error).split())[:300]]}
    return {"wrong": ["it is expected to fail, and passes"]} if case in EXPECTED else {}
