"""Time compiling the whole models of the zoo, and measure their files.

python scripts/bench_compile.py               # docs/results/bench_compile.{json,md}
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import onnx
import zoo
from git_state import described_commit

import tvm_stitch

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("bert", "gpt2", "vit", "resnet50", "mobilenetv2", "encoder_decoder")
MOST_SECONDS, MOST_GROWTH = 60.0, 1.2


def initializer_bytes(model: onnx.ModelProto) -> int:
    """Return the bytes of a model's initializers, those of equal contents counted once."""
    arrays = (onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    return sum({(a.tobytes(), str(a.dtype), a.shape): a.nbytes for a in arrays}.values())


def measure(name: str) -> dict:
    """Return the seconds, kernels and bytes of one model."""
    model = zoo.model(name)
    start = time.perf_counter()
    compiled = tvm_stitch.compile(model)
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.so"
        compiled.export(path)
        file_bytes = path.stat().st_size
        start = time.perf_counter()
        tvm_stitch.load(path)
        load_ms = 1e3 * (time.perf_counter() - start)
    return {
        "model": name,
        "seconds": seconds,
        "kernels": compiled.report.kernels,
        "initializer_bytes": initializer_bytes(model),
        "file_bytes": file_bytes,
        "resident_weight_bytes": compiled.report.resident_weight_bytes,
        "load_ms": load_ms,
    }


def table(rows: list[dict], commit: str) -> str:
    """Return the rows as Markdown, with whether each is within its bounds."""
    out = [
        "# Compiling whole models",
        "",
        f"`python scripts/bench_compile.py` at {commit}. The file is a ratio to the distinct",
        f"initializers of the model. Asked: {MOST_SECONDS:.0f} s, {MOST_GROWTH}.",
        "",
        "| model | kernels | seconds | file | resident weights, MiB | load, ms | within |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        growth = row["file_bytes"] / row["initializer_bytes"]
        within = row["seconds"] <= MOST_SECONDS and growth <= MOST_GROWTH
        resident = row["resident_weight_bytes"] / 2**20
        out.append(
            f"| {row['model']} | {row['kernels']} | {row['seconds']:.1f} | {growth:.3f} "
            f"| {resident:.0f} | {row['load_ms']:.0f} | {'yes' if within else 'no'} |"
        )
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", metavar="A,B", default=",".join(MODELS))
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_compile")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.models.split(","):
        # In a process of its own TVM's caches start empty.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(measure, name).result())
        print(rows[-1], flush=True)
    commit = described_commit()
    result = {"commit": commit, "rows": rows}
    arguments.output.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    arguments.output.with_suffix(".md").write_text(table(rows, commit))


if __name__ == "__main__":
    main()
