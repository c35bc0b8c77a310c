"""Print the op table that the peers Inductor and XLA run through, or what a model lacks in it.

    python scripts/onnx_torch_jax_ops.py             # every op with a row
    python scripts/onnx_torch_jax_ops.py MODEL.onnx  # the model's ops, and those without one

The table itself is in `tvm_stitch/profiling/onnx_ops/`, so that an installed `tvm-stitch bench`
has it too.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from tvm_stitch.frontend.onnx_graph.load import load_structure
from tvm_stitch.profiling.onnx_ops.table import jax_column, torch_column


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, nargs="?", metavar="MODEL.onnx")
    args = parser.parse_args()
    columns = {"torch": torch_column().rows, "jax": jax_column().rows}
    if args.model is None:
        ops = Counter(dict.fromkeys(set().union(*columns.values()), 1))
    else:
        ops = Counter(node.op_type for node in load_structure(args.model).graph.node)
        del ops["Constant"]
    for op in sorted(ops):
        lacking = [name for name, rows in columns.items() if op not in rows]
        print(f"{op} x{ops[op]}" + (f": no row for {' and '.join(lacking)}" if lacking else ""))


if __name__ == "__main__":
    main()
