"""Time architectures of timm, torchvision and transformers, full size, against their peers.

python scripts/bench_architectures.py      # docs/results/bench_architectures.{json,md}
python scripts/bench_architectures.py --names densenet121,llama --budget 200
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import onnx
from bench_models import PACE, arguments, race
from full_size import FULL_SIZE

from tvm_stitch.profiling.harness import Crew, compare
from tvm_stitch.profiling.peer import OURS, Job

PEERS = ("onnxruntime", "openvino", "inductor")
TITLE = "Architectures of timm, torchvision and transformers against their peers"


def main() -> None:
    description = __doc__.partition("\n")[0]
    args = arguments(description, FULL_SIZE, PEERS, 300.0, "bench_architectures")
    race("bench_architectures", TITLE, args, _measured)


def _measured(crew: Crew, name: str, peers: list[str], args: argparse.Namespace) -> list[dict]:
    with tempfile.TemporaryDirectory(dir=crew.workdir) as folder:
        path = Path(folder) / "model.onnx"
        inputs = FULL_SIZE[name].export(path)
        taken = {value.name for value in onnx.load(path, load_external_data=False).graph.input}
        kept = {key: array for key, array in inputs.items() if key in taken}
        job = Job(path, crew.workdir, crew.threads)
        rows = compare(crew, job, kept, [OURS, *peers], args.budget, pace=PACE)
        return [row.to_json() for row in rows]


if __name__ == "__main__":
    main()
