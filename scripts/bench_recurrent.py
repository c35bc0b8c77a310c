"""Time recurrent layers and a CRNN against ONNX Runtime and OpenVINO, each row's better one.

python scripts/bench_recurrent.py                   # docs/results/bench_recurrent.{json,md}
python scripts/bench_recurrent.py --names lstm --threads 1
"""

from __future__ import annotations

from functools import partial

from bench_compute import Bars, Case, run
from zoo.crnn import crnn_like
from zoo.recurrent import GATES, recurrent

BARS = Bars(best=1.1, row=0.9, share=0.0)


def case(
    op: str, hidden: int, batch: int, steps: int, directions: int = 1, layers: int = 1
) -> Case:
    """A stack whose input is as wide as its state."""
    sizes = f"hidden {hidden}, batch {batch}, {steps} steps"
    sizes += ", both ways" if directions == 2 else ""
    sizes += f", {layers} layers" if layers > 1 else ""
    flops, depth = 0, hidden
    for _ in range(layers):
        flops += 2 * steps * batch * directions * GATES[op] * hidden * (depth + hidden)
        depth = directions * hidden
    model = partial(
        recurrent,
        op,
        steps=steps,
        batch=batch,
        depth=hidden,
        hidden=hidden,
        directions=directions,
        layers=layers,
    )
    return Case(op.lower(), sizes, flops, model)


CASES = [
    *(
        case(op, hidden, batch, steps)
        for op in ("LSTM", "GRU")
        for hidden, steps in ((64, 128), (128, 50), (256, 50), (512, 25), (1024, 25))
        for batch in (1, 8, 32)
    ),
    *(case(op, 256, batch, 50, 2, 2) for op in ("LSTM", "GRU") for batch in (1, 8, 32)),
    Case("crnn", "32 x 100 image", 0, partial(crnn_like, lstm=True)),
]

if __name__ == "__main__":
    run("bench_recurrent", "Recurrent layers", __doc__.splitlines()[0], CASES, BARS)
