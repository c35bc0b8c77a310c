"""Whether `verify` finds a mutation and names what it makes wrong.

PYTHONPATH=scripts:tests/lib python -m support.mutations.case NAME

It prints {"wrong": [...], "finding": ...}.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile

import onnx
import pytest

import tvm_stitch
from support import one_machine
from support.mutations import models as mutation_models
from support.mutations.mutation import Mutation, mutated
from support.mutations.table import MUTATIONS
from tir_schedules.fuel import unnoted
from tvm_stitch import pipeline
from tvm_stitch.build import Request, lower
from tvm_stitch.verification.verification import Verification

THREADS = 2


def judged(mutation: Mutation) -> dict:
    """Return what is `wrong` with a mutation, nothing if it is found, and what `verify` says."""
    model = getattr(mutation_models, mutation.model)()
    before, right = _code(model, mutation.fusion), _verified(model, mutation.fusion)
    with mutated(mutation):
        after, found = _code(model, mutation.fusion), _verified(model, mutation.fusion)
    first = str(found.findings[0]) if found.findings else ""
    checks = {
        f"{mutation.model} is wrong without it: {right}": bool(right),
        f"the code of {mutation.model} is the same": before != after,
        "verify finds nothing": bool(first),
        f"verify names another place than {mutation.names}: {first}": mutation.names in first,
    }
    wrong = [what for what, holds in checks.items() if not holds]
    return {"wrong": wrong, "finding": first.partition("\n    python")[0]}


def _verified(model: onnx.ModelProto, fusion: str) -> Verification:
    with tempfile.TemporaryDirectory() as folder:
        return tvm_stitch.verify(model, threads=THREADS, fusion=fusion, reproducers=folder)


def _code(model: onnx.ModelProto, fusion: str) -> str:
    """Return a hash of the kernels, and of how they are called and where their tensors lie."""
    lowered = lower(Request(model, threads=THREADS, fusion=fusion))
    with lowered.target, unnoted():
        mod = pipeline.build_pipeline(lowered.target)(lowered.mod)
    return hashlib.sha256(mod.script().encode()).hexdigest()


def main() -> None:
    one_machine.settle(pytest.MonkeyPatch())
    print(json.dumps(judged(MUTATIONS[sys.argv[1]])))


if __name__ == "__main__":
    main()
