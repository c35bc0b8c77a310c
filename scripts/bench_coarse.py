"""Time the MLP and attention subgraphs of oneDNN Graph Compiler's paper against four peers.

python scripts/bench_coarse.py                # docs/results/bench_coarse.{json,md}
python scripts/bench_coarse.py --names mha_1 --threads 2
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import zoo
from bench_compute import Bars, Case, run
from zoo.onednn import MHA_SIZES, MLP_SIZES

MLP_BATCHES = (32, 64, 128, 256, 512)
MHA_BATCHES = {name: (1, 8, 32) for name in MHA_SIZES} | {"mha_4": (1, 4, 8, 32)}
PEERS = ("onnxruntime", "openvino", "inductor", "xla")


def cases() -> Iterator[Case]:
    for name, sizes in MLP_SIZES.items():
        for batch in MLP_BATCHES:
            flops = 2 * batch * sum(a * b for a, b in pairwise(sizes))
            yield Case(name, f"batch {batch}", flops, partial(zoo.model, name, batch=batch))
    for name, (length, hidden, _) in MHA_SIZES.items():
        for batch in MHA_BATCHES[name]:
            flops = 4 * batch * length * length * hidden
            yield Case(name, f"batch {batch}", flops, partial(zoo.model, name, batch=batch))


if __name__ == "__main__":
    bars = Bars(PEERS, best=1.05, row=0.9, share=0.85, large_flops=2.5e8)
    title = "MLP and attention subgraphs, f32"
    run("bench_coarse", title, __doc__.partition("\n")[0], list(cases()), bars)
