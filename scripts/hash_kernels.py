"""Print a hash of the kernels behind each row of bench_memory.py: equal hashes, equal figures.

python scripts/hash_kernels.py > before     # and again on another commit, then diff
"""

from __future__ import annotations

import hashlib

import zoo
from tvm import tirx

from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model


def main() -> None:
    for threads in (1, 2):
        target = targets.resolve("x86", threads)
        for name in zoo.SUBGRAPHS:
            for size, shape in zoo.bench_shapes(name).items():
                mod, _ = pipeline.lower(
                    import_model(zoo.subgraph(name, shape)).mod,
                    target,
                    fusion="stitch",
                    threads=threads,
                )
                kernels = [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
                text = "\n".join(sorted(kernel.script() for kernel in kernels))
                print(name, size, threads, hashlib.sha256(text.encode()).hexdigest()[:16])


if __name__ == "__main__":
    main()
