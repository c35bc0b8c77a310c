"""What nvcc makes of each memory-intensive subgraph by its default decisions, without a GPU.

    python scripts/cuda_machine_code.py [--dtypes float32,float16] [-o docs/results/cuda_code.json]

A row a launch: blocks, threads, registers beside the planner's estimate, spilled bytes, shared
memory, and loads and stores of global memory, 128-bit ones among them. Exits with 1 if anything
spills. Needs `pip install '.[cuda]'`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import zoo
from checks import ROOT, record

from support.cuda.checked import planned
from support.cuda.kernels import fused
from support.cuda.machine_code import machine_code, toolkit
from support.kernels import stitch_case as sc
from tir_schedules.cuda.cost.occupancy import registers_of
from tir_schedules.cuda.plan.shared import block_bytes

ARCHS = ("sm_80", "sm_90")


def rows(dtype: str) -> Iterator[dict]:
    """Yield what each launch of each subgraph becomes, in each size it is measured in."""
    for name in sc.SUBGRAPHS:
        for size, shape in zoo.bench_shapes(name).items():
            (func,) = fused(zoo.subgraph(name, shape, dtype))
            gpu = planned(func)
            pairs = list(zip(gpu.plan.launches(), gpu.made.kernels, strict=True))
            for arch in ARCHS:
                for number, (phases, kernel) in enumerate(pairs):
                    made = machine_code(kernel.source, arch)
                    yield {
                        "subgraph": name,
                        "size": size,
                        "dtype": dtype,
                        "arch": arch,
                        "launch": number,
                        "blocks": sum(phase.blocks for phase in phases),
                        "threads": phases[0].threads,
                        "registers": made.registers,
                        "estimated": max(map(registers_of, phases)),
                        "spilled": made.spilled,
                        "shared_bytes": block_bytes(*phases),
                        "loads": made.count("LDG"),
                        "loads_128": made.count("LDG", "128"),
                        "stores": made.count("STG"),
                        "stores_128": made.count("STG", "128"),
                    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtypes", default="float32,float16,bfloat16")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs/results/cuda_code.json")
    args = parser.parse_args()
    if toolkit() is None:
        print("cuda_machine_code.py: no nvcc: pip install '.[cuda]'", file=sys.stderr)
        return 1
    found = [row for dtype in args.dtypes.split(",") for row in rows(dtype)]
    spilled = [row for row in found if row["spilled"]]
    head = record.header(allow_dirty=True)
    args.output.write_text(json.dumps({**head, "rows": found}, indent=1) + "\n")
    print(f"{len(found)} launches, {len(spilled)} spill: {args.output}")
    return int(bool(spilled))


if __name__ == "__main__":
    sys.exit(main())
