"""Text classification under torch.compile, as texts come: twenty lengths in random order.

python scripts/bench_lengths.py          # docs/results/bench_lengths.{json,md}

Each backend in a process of its own, one after the other: seconds until every length was seen once,
then medians of what a text takes. Ours twice, the second process with the folder that the first
one filled.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from git_state import described_commit

from tvm_stitch import targets
from tvm_stitch.profiling.stats import geometric_mean

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "docs/results/bench_lengths"
LENGTHS = 20
ROUNDS = 15
BACKENDS = ("ours", "ours, cached", "inductor", "eager")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--child", choices=("ours", "inductor", "eager"), help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(_child(args)))
        return
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    record = {
        "command": " ".join(["python scripts/bench_lengths.py", *sys.argv[1:]]),
        "commit": described_commit(),
    }
    record |= {"mcpu": targets.machine().mcpu, "seed": seed, "layers": args.layers}
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        for name in BACKENDS:
            kind = name.partition(",")[0]
            command = [sys.executable, __file__, "--child", kind, "--seed", str(seed)]
            command += ["--layers", str(args.layers), "--threads", str(args.threads)]
            command += ["--cache", folder]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            record[name] = json.loads(done.stdout.splitlines()[-1])
            print(name, {k: v for k, v in record[name].items() if k != "ms"}, flush=True)
    OUTPUT.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    OUTPUT.with_suffix(".md").write_text(_table(record))
    print(_table(record))


def _child(args: argparse.Namespace) -> dict:
    import torch
    from wild import torchvision_ops

    torchvision_ops.declare()
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    config = DistilBertConfig(n_layers=args.layers, num_labels=3)
    model = DistilBertForSequenceClassification(config).eval()
    rng = random.Random(args.seed)
    lengths = rng.sample(range(4, 257), LENGTHS)
    texts = {n: torch.randint(0, config.vocab_size, (1, n)) for n in lengths}
    run = model
    if args.child == "ours":
        options = {"threads": args.threads, "cache": str(args.cache), "strict": True}
        from tvm_stitch.torch import backend

        run = torch.compile(model, backend=backend, options=options)
    elif args.child == "inductor":
        run = torch.compile(model)
    worst, order = 0.0, rng.sample(lengths, LENGTHS)
    with torch.no_grad():
        start = time.perf_counter()
        made = {n: run(input_ids=texts[n]).logits for n in order}
        first = time.perf_counter() - start
        for n in lengths:
            want = model(input_ids=texts[n]).logits
            worst = max(worst, float((made[n] - want).abs().max() / want.abs().max()))
        taken: dict[int, list[float]] = {n: [] for n in lengths}
        for _ in range(ROUNDS):
            for n in rng.sample(lengths, LENGTHS):
                start = time.perf_counter()
                run(input_ids=texts[n])
                taken[n].append(time.perf_counter() - start)
    times = {n: statistics.median(each) * 1e3 for n, each in taken.items()}
    answer = {"seconds": first, "worst": worst, "ms": times}
    if args.child == "ours":
        import tvm_stitch.torch

        told = tvm_stitch.torch.report()
        answer |= {"builds": told.builds, "loaded": told.loaded, "eager": told.eager}
    return answer


def _table(record: dict) -> str:
    lines = [
        "# Twenty lengths of text under torch.compile",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}: DistilBERT of "
        f"{record['layers']} layers, batch 1, lengths of seed {record['seed']}.",
        "",
        "| backend | builds | first pass s | ms a text (geometric mean) | over ours | off by |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    ours = geometric_mean(list(record["ours"]["ms"].values()))
    for name in BACKENDS:
        one = record[name]
        mean = geometric_mean(list(one["ms"].values()))
        cells = [name, str(one.get("builds", "")), f"{one['seconds']:.1f}", f"{mean:.2f}"]
        cells += [f"{mean / ours:.2f}", f"{one['worst']:.1e}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
