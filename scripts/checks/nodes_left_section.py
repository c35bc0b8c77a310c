"""ONNX's own tests, what no one here compiles left to ONNX Runtime: fallback="onnxruntime"."""

from __future__ import annotations

import functools
import unittest
from typing import Any

import onnx

from tvm_stitch.onnx_backend import Prepared, StitchBackend
from tvm_stitch.open_shapes.specialised import Specialised

from . import nodes_section

EXPECTED = nodes_section.EXPECTED | {
    f"test_training_dropout{ratio}{mask}_cpu": nodes_section.DRAWN
    for ratio in ("", "_default")
    for mask in ("", "_mask")
}


class LeavingModel(Prepared):
    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = Specialised(model, target="x86", fallback="onnxruntime")


class LeavingBackend(StitchBackend):
    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> LeavingModel:
        return LeavingModel(model)


@functools.cache
def _tests() -> dict[str, type[unittest.TestCase]]:
    return nodes_section.tests_of(LeavingBackend)


def cases(_seed: int) -> list[str]:
    return list(_tests())


def run(case: str) -> dict:
    return nodes_section.outcome(_tests()[case](case), EXPECTED.get(case))
