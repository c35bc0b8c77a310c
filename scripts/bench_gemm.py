"""Time matrix products against oneDNN (through OpenVINO) and MLAS (through ONNX Runtime).

    python scripts/bench_gemm.py                  # docs/results/bench_gemm.{json,md}
    python scripts/bench_gemm.py --names bert --threads 1

Each peer in its own process, interleaved; the peak is multiply-adds on registers in the same run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
import zoo
from zoo.graph import Graph

from tvm_stitch import targets
from tvm_stitch.profiling.harness import Crew, compare
from tvm_stitch.profiling.peers import OURS, Job
from tvm_stitch.profiling.rounds import Pace
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.profiling.table import number

ROOT = Path(__file__).resolve().parents[1]
PEAK, PEERS = "fma-peak", ("onnxruntime", "openvino")
PACE = Pace(rounds=9, turn_s=0.15, turn_runs=150)
# What issue 4 asks for.
VS_BEST, VS_BEST_ROW, PEAK_SHARE, LARGE_FLOPS = 1.0, 0.85, 0.90, 5e8


@dataclass(frozen=True)
class Product:
    """`batch` products of (m, k) and (k, n); the second is a weight where `constant`."""

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    constant: bool = True
    transposed: bool = False

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k

    def model(self) -> onnx.ModelProto:
        g = Graph("product")
        lead = (self.batch,) if self.batch > 1 else ()
        shape = (self.n, self.k) if self.transposed else (self.k, self.n)
        a = g.input("a", (*lead, self.m, self.k))
        b = g.weight("b", shape) if self.constant else g.input("b", (*lead, *shape))
        if self.transposed:
            rank = len(lead) + 2 if not self.constant else 2
            b = g.op("Transpose", b, perm=[*range(rank - 2), rank - 1, rank - 2])
        g.output(g.op("MatMul", a, b), "y", (*lead, self.m, self.n))
        return g.model()


PRODUCTS = [
    *(Product("bert", 128, n, k) for n, k in ((768, 768), (3072, 768), (768, 3072))),
    Product("bert-qkv", 128, 2304, 768),
    Product("bert-batch-8", 1024, 768, 768),
    Product("bert-scores", 128, 128, 64, batch=12, constant=False, transposed=True),
    Product("bert-context", 128, 64, 128, batch=12, constant=False),
    *(Product("gpt2-decode", 1, n, k) for n, k in ((768, 768), (3072, 768), (768, 3072))),
    Product("gpt2-decode-head", 1, 50257, 768, transposed=True),
    *(Product("gpt2-prefill", 64, n, k) for n, k in ((2304, 768), (3072, 768), (768, 3072))),
    Product("gpt2-scores", 64, 64, 64, batch=12, constant=False, transposed=True),
    *(Product("vit", 197, n, k) for n, k in ((768, 768), (3072, 768), (768, 3072))),
    Product("vit-scores", 197, 197, 64, batch=12, constant=False, transposed=True),
    *(Product("mlp_1", 128, n, k) for n, k in ((512, 13), (256, 512), (128, 256))),
    *(Product("mlp_2", m, n, k) for m in (32, 512) for n, k in ((1024, 479), (1024, 1024))),
    Product("mlp_2-out", 512, 1, 256),
    *(Product("prime", m, n, k) for m, n, k in ((127, 131, 137), (509, 521, 523), (17, 19, 23))),
    Product("tall", 16384, 32, 64),
    Product("tall", 4096, 17, 512),
    Product("wide", 32, 16384, 64),
    Product("deep", 32, 32, 16384),
    Product("outer", 1024, 1024, 8),
    *(Product("square", s, s, s) for s in (64, 256, 512, 1024, 2048)),
    Product("square-transposed", 1024, 1024, 1024, transposed=True),
    Product("activations", 512, 512, 512, constant=False),
    Product("small-batch", 16, 16, 16, batch=256, constant=False),
    Product("gemv", 1, 4096, 4096),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", default="", metavar="A,B", help="names that start so")
    parser.add_argument("--threads", default="1,2", metavar="1,2")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds a row may take")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_gemm")
    args = parser.parse_args()
    starts = tuple(args.names.split(","))
    chosen = [p for p in PRODUCTS if p.name.startswith(starts)]
    record = {"command": " ".join(["python scripts/bench_gemm.py", *sys.argv[1:]])}
    record |= {"commit": _commit(), "mcpu": targets.machine().mcpu, "rows": []}
    for threads in map(int, args.threads.split(",")):
        with Crew(threads) as crew:
            for product in chosen:
                row = {**asdict(product), "flops": product.flops, "threads": threads}
                measured = _measured(crew, product, args.budget)
                if isinstance(measured, str):
                    print(f"{product.name}, {threads} threads: {measured}", file=sys.stderr)
                    continue
                record["rows"].append(row | measured)
                print(_line(record["rows"][-1]), flush=True)
    args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    args.output.with_suffix(".md").write_text(_render(record))
    print(_summary(record["rows"]))


def _measured(crew: Crew, product: Product, budget: float) -> dict | str:
    """Return the times of one product, or why it was not timed."""
    path = crew.workdir / "product.onnx"
    model = product.model()
    onnx.save(model, path)
    job = Job(path, crew.workdir, crew.threads)
    rows = compare(crew, job, zoo.random_inputs(model), (OURS, PEAK, *PEERS), budget, pace=PACE)
    times = {row.peer: row.timing.median_us for row in rows if row.timing}
    for row in rows:
        if row.peer not in times:
            return f"{row.peer}: {row.reason}"
    (peak,) = (row for row in rows if row.peer == PEAK)
    flops = peak.facts["flops"] / times[PEAK] / 1e3
    apart = max((row.apart for row in rows if row.apart is not None), default=None)
    return {"us": times, "peak_gflops": flops, "apart": apart}


def _ratio(row: dict) -> float:
    """Return the better peer's time over ours."""
    return min(row["us"][peer] for peer in PEERS) / row["us"][OURS]


def _share(row: dict) -> float:
    return row["flops"] / row["us"][OURS] / 1e3 / row["peak_gflops"]


def _summary(rows: list[dict]) -> str:
    ratios = [_ratio(row) for row in rows]
    large = [_share(row) for row in rows if row["flops"] >= LARGE_FLOPS]
    return "\n".join(
        (
            f"- geometric mean against the better peer of each row: {geometric_mean(ratios):.2f} "
            f"over {len(ratios)} rows (asked: {VS_BEST})",
            f"- rows under {VS_BEST_ROW}: {sum(r < VS_BEST_ROW for r in ratios)}",
            f"- products of {LARGE_FLOPS:.0e} FLOPs or more under {PEAK_SHARE:.0%} of peak: "
            f"{sum(s < PEAK_SHARE for s in large)} of {len(large)}",
        )
    )


def _line(row: dict) -> str:
    shape = "x".join(str(row[key]) for key in ("m", "n", "k"))
    shape = f"{row['batch']} x {shape}" if row["batch"] > 1 else shape
    times = [number(row["us"][peer]) for peer in (OURS, *PEERS)]
    gflops = row["flops"] / row["us"][OURS] / 1e3
    cells = [row["name"], shape, str(row["threads"]), *times, f"{_ratio(row):.2f}"]
    return f"| {' | '.join(cells)} | {gflops:.0f} | {_share(row):.0%} |"


def _render(record: dict) -> str:
    head = ["# Matrix products against their peers", ""]
    head += [f"`{record['command']}` at {record['commit']}, {record['mcpu']}. Medians in us.", ""]
    head += [_summary(record["rows"]), ""]
    head += [f"| product | m x n x k | threads | ours | {' | '.join(PEERS)} | ratio | GFLOP/s | |"]
    head += ["|---|---|" + "--:|" * (6 + len(PEERS) - 1)]
    return "\n".join([*head, *map(_line, record["rows"]), ""])


def _commit() -> str:
    described = ("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    return subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
