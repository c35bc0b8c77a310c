"""Time architectures of timm, torchvision and transformers, full size, against their peers.

    python scripts/bench_architectures.py      # docs/results/bench_architectures.{json,md}
    python scripts/bench_architectures.py --names densenet121,llama --budget 200

Rows that an earlier run on the same commit measured stay, so that it can be run in parts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import onnx
from bench_models import PACE, arguments, cells, table
from full_size import FULL_SIZE, FullSize
from git_state import described_commit

from tvm_stitch import targets
from tvm_stitch.profiling.harness import Crew, compare
from tvm_stitch.profiling.peer import AGAINST, OURS, Job

PEERS = ("onnxruntime", "openvino", "inductor")


def main() -> None:
    description = __doc__.partition("\n")[0]
    args = arguments(description, FULL_SIZE, PEERS, 300.0, "bench_architectures")
    record = {
        "command": " ".join(["python scripts/bench_architectures.py", *sys.argv[1:]]),
        "commit": described_commit(),
        "mcpu": targets.machine().mcpu,
        "threads": args.threads,
    }
    file = args.output.with_suffix(".json")
    rows = _measured_before(file, record)
    peers = [row for name in args.against for row in AGAINST[name]]
    with Crew(args.threads) as crew:
        for name in args.names:
            ours, *others = _timed(crew, FULL_SIZE[name], [OURS, *peers], args.budget)
            if ours["timing"] is None:
                sys.exit(f"{name}: {ours['reason']}")
            rows[name] = {"name": name, "peers": [ours, *others]}
            print(" ".join(cells(rows[name], peers)), flush=True)
            record["rows"] = [rows[each] for each in FULL_SIZE if each in rows]
            file.write_text(json.dumps(record, indent=1) + "\n")
    title = "# Architectures of timm, torchvision and transformers against their peers"
    args.output.with_suffix(".md").write_text(f"{title}\n\n{table(record)}")


def _measured_before(file: Path, record: dict) -> dict[str, dict]:
    before = json.loads(file.read_text()) if file.exists() else {}
    same = all(before.get(key) == record[key] for key in ("commit", "mcpu", "threads"))
    return {row["name"]: row for row in before["rows"]} if same else {}


def _timed(crew: Crew, model: FullSize, peers: list[str], budget: float) -> list[dict]:
    with tempfile.TemporaryDirectory(dir=crew.workdir) as folder:
        path = Path(folder) / "model.onnx"
        inputs = model.export(path)
        taken = {value.name for value in onnx.load(path, load_external_data=False).graph.input}
        job = Job(path, crew.workdir, crew.threads)
        kept = {name: array for name, array in inputs.items() if name in taken}
        return [row.to_json() for row in compare(crew, job, kept, peers, budget, pace=PACE)]


if __name__ == "__main__":
    main()
