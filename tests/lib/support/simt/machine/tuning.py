"""A model tuned on the simulated GPU, as users do: python -m support.simt.machine.tuning FOLDER

Prints a JSON object by what is asked of it. Times are of fibers: they tell nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import zoo

import tvm_stitch
from support.simt import machine
from support.simt.machine import tune_worker
from tvm_stitch.cli import main as command
from tvm_stitch.errors import StitchError
from tvm_stitch.tuning import tune
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.measure import machine as machines
from tvm_stitch.tuning.measure.rpc_machine import Tracker


def main(folder: Path) -> dict:
    machine.install()
    machines.WORKER, tune.available_cpus = tune_worker.__name__, lambda: 1
    path, log = folder / "softmax.onnx", str(folder / "tuning.db")
    onnx.save(zoo.subgraph("softmax", (4, 96), "float32"), path)
    options, answers = {"target": "cuda:sm_90"}, {}
    asked = tune.Asked(path, options, log, 1, None, 1)
    answers["told"] = tune.tune(asked, lambda _session: None)
    with Log.open(log) as opened:
        trials = [*opened.trials()]
    answers["trials"] = len(trials)
    answers["errors"] = [each.error for each in trials if each.error]
    answers["decided"] = len({each.decisions for each in trials})
    answers["features"] = all(each.features for each in trials if not each.error)
    tracker = tune.Asked(path, options, log, 6, None, 1, Tracker(("127.0.0.1", 9190), "key"))
    answers["tracker"] = _refused(tracker)
    command(["log", "list", log])
    command(["explain", str(path), "--target", "cuda:sm_90", "--log", log])
    x = np.random.default_rng(2).standard_normal((4, 96)).astype(np.float32)
    made = tvm_stitch.compile(path, "cuda:sm_90", log=log).run({"x": x})
    exps = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    (got,) = made.values()
    answers["apart"] = float(np.abs(got - exps / exps.sum(1, keepdims=True)).max())
    return answers


def _refused(asked: tune.Asked) -> str:
    try:
        tune.tune(asked, lambda _session: None)
    except StitchError as error:
        return str(error)
    return "not refused"


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
