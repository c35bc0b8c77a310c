"""Random ONNX graphs from the list of operators, against ONNX's reference evaluator."""

from __future__ import annotations

from support.onnx_ops.chain import random_chain
from support.onnx_ops.compared import check

from . import sample

GRAPHS = 10_000


def cases(seed: int) -> list[str]:
    return sample.draw(GRAPHS, seed + 2)


def run(seed: str) -> dict:
    try:
        chain = random_chain(int(seed))
    except ValueError:
        return {"wrong": []}
    answer = check(chain)
    return {"wrong": answer.wrong, "graph": str(chain)} if answer.wrong else {"wrong": []}
