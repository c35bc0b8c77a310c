"""Whether `verify` finds a mutation and names what it makes wrong.

python tests/mutation_case.py NAME      # prints {"wrong": [...], "finding": ...}
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile

import conftest
import mutation_models
import onnx
import pytest
from mutation_table import MUTATIONS
from mutations import Mutation, mutated

import tvm_stitch
from tir_schedules.fuel import unnoted
from tvm_stitch import pipeline
from tvm_stitch.build import Request, lower
from tvm_stitch.runtime.weights import fetch_weights
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
        mod = pipeline.build_pipeline(lowered.target)(fetch_weights(lowered.mod))
    return hashlib.sha256(mod.script().encode()).hexdigest()


def main() -> None:
    conftest.settle(pytest.MonkeyPatch())
    print(json.dumps(judged(MUTATIONS[sys.argv[1]])))


if __name__ == "__main__":
    main()
