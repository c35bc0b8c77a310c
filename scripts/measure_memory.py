"""Measure the peak memory of compiling and exporting a model of a given weight size.

The model is a chain of matrix products with weights of 64 MiB each, in external data. Prints and
writes peak resident memory up to and including export, seconds, and the file's size as ratios.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, save_model
from onnx.external_data_helper import set_external_data

_WIDTH = 4096
_WEIGHT_BYTES = _WIDTH * _WIDTH * 4


def write_model(folder: Path, layers: int) -> Path:
    """Write `y = x @ w0 @ w1 ...` with its weights in one external file."""
    names = [f"w{i}" for i in range(layers)]
    rng = np.random.default_rng(0)
    initializers = []
    with (folder / "weights.bin").open("wb") as file:
        for position, name in enumerate(names):
            file.write(rng.standard_normal((_WIDTH, _WIDTH), np.float32).tobytes())
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[_WIDTH, _WIDTH])
            tensor.raw_data = b""
            set_external_data(
                tensor, "weights.bin", offset=position * _WEIGHT_BYTES, length=_WEIGHT_BYTES
            )
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            initializers.append(tensor)
    values = ["x", *(f"v{i}" for i in range(layers - 1)), "y"]
    nodes = [
        helper.make_node("MatMul", [values[i], names[i]], [values[i + 1]]) for i in range(layers)
    ]
    ends = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [1, _WIDTH]) for v in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], initializers)
    path = folder / "chain.onnx"
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def measure(path: Path) -> dict[str, float]:
    """Compile and export in this process; return seconds and bytes."""
    import tvm_stitch

    start = time.perf_counter()
    model = tvm_stitch.compile(path)
    compiled = time.perf_counter()
    out = path.with_suffix(".so")
    model.export(out)
    return {
        "compile_s": compiled - start,
        "export_s": time.perf_counter() - compiled,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "file_bytes": out.stat().st_size,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.3)
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/results/memory.json"))
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        print(json.dumps(measure(args.child)))
        return
    layers = max(1, round(args.gigabytes * 1e9 / _WEIGHT_BYTES))
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(Path(folder), layers)
        command = [sys.executable, __file__, "--child", str(path)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    weights = layers * _WEIGHT_BYTES
    result = {"weight_bytes": weights, **json.loads(text.splitlines()[-1])}
    result["peak_limit_bytes"] = 3 * weights + 2 * 10**9
    result["file_to_weights"] = result["file_bytes"] / weights
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
