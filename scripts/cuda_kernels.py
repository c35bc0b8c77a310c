"""How many kernels a model launches on a GPU, beside stock TVM: counted, without a GPU.

    python scripts/cuda_kernels.py [--models bert,vit] [--dtypes float32,float16]
                                   [-o docs/results/cuda_kernels.json]

A row a model: launches of one run, how many of them are of kernels on the fallback schedule, the
seconds that lowering took, and the launches of TVM's own CUDA pipeline (fused by FuseOps, scheduled
by dlight).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import tvm
import zoo
from checks import ROOT, record
from tvm import ir, relax, tirx
from tvm.ir import IRModule
from tvm.relax.backend.cuda import pipeline as stock

from tir_schedules.backend import backend
from tvm_stitch import targets
from tvm_stitch.build import Request, lower, understand

TARGET = "cuda:sm_90"
DTYPES = ("float32", "float16")


def row(name: str, dtype: str) -> dict:
    """Return what is counted of a model."""
    model = zoo.model(name, dtype=dtype)
    start = time.perf_counter()
    report = lower(Request(model, TARGET)).report
    seconds = time.perf_counter() - start
    return {
        "model": name,
        "dtype": dtype,
        "launches": report.kernels,
        "kernels": len(report.groups),
        "fallbacks": report.fallbacks,
        "lower_s": round(seconds, 1),
        "stock": stock_launches(understand(Request(model, TARGET)).imported.mod),
    }


def stock_launches(mod: IRModule) -> int:
    """Return how many kernels TVM's own pipeline launches."""
    target = targets.resolve(TARGET)
    passes = [*stock.library_dispatch_passes(target), *stock.legalize_passes(target)]
    passes.append(relax.transform.RewriteDataflowReshape())
    with target:
        made = tvm.transform.Sequential(passes)(mod)
    launches = backend(target).launches
    calls = Counter(_called(made))
    return sum(count * launches(made[name]) for name, count in calls.items())


def _called(mod: IRModule) -> list[str]:
    """Return the names of the kernels that `main` calls, each as often as it does."""
    found: list[str] = []

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.Call) and node.op == ir.Op.get("relax.call_tir"):
            name = node.args[0].name_hint
            if isinstance(mod[name], tirx.PrimFunc):
                found.append(name)

    relax.analysis.post_order_visit(mod["main"], visit)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=_listed, default=list(zoo.MODELS), metavar="A,B")
    parser.add_argument("--dtypes", type=_listed, default=list(DTYPES), metavar="A,B")
    default = ROOT / "docs" / "results" / "cuda_kernels.json"
    parser.add_argument("-o", "--output", type=Path, default=default, metavar="FILE")
    args = parser.parse_args()
    rows = []
    for name in args.models:
        for dtype in args.dtypes:
            rows.append(row(name, dtype))
            print(" ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    args.output.write_text(json.dumps({**record.header(True), "rows": rows}, indent=1) + "\n")
    return int(any(row["fallbacks"] for row in rows))


def _listed(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
