"""Time matrix products against oneDNN (through OpenVINO) and MLAS (through ONNX Runtime).

python scripts/bench_gemm.py                  # docs/results/bench_gemm.{json,md}
python scripts/bench_gemm.py --names bert --threads 1
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from bench_compute import Case, run
from zoo.graph import Graph


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

    def case(self) -> Case:
        sizes = f"{self.m}x{self.n}x{self.k}{' (b transposed)' if self.transposed else ''}"
        sizes = f"{self.batch} x {sizes}" if self.batch > 1 else sizes
        return Case(self.name, sizes, 2 * self.batch * self.m * self.n * self.k, self.model)

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


if __name__ == "__main__":
    cases = [product.case() for product in PRODUCTS]
    run("bench_gemm", "Matrix products, m x n x k", __doc__.partition("\n")[0], cases)
