"""Train the model of gains that is shipped for this CPU on the trials of a log.

    python scripts/bench_tuning.py --trials 32 --log trials.db
    python scripts/train_shipped.py trials.db      # tvm_stitch/tuning/model/shipped/MCPU.json

Prints how it ranks pairs of plans of kernels that it was not shown, beside the evaluator.
"""

from __future__ import annotations

import sys

import numpy as np

from tir_schedules.backend import device_of
from tvm_stitch import targets
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.model.gains import GainModel, rank_accuracy
from tvm_stitch.tuning.model.kept import samples_of_device, shipped_path
from tvm_stitch.tuning.model.training import held_out, judged

THREADS = 2
SEED = 0


def main(path: str) -> int:
    device = device_of(targets.resolve("x86", THREADS), THREADS)
    with Log.open(path) as log:
        samples = samples_of_device(log, device_key(device))
    if not samples.suffice:
        print(f"{path}: too few trials of {device.mcpu} at {THREADS} threads", file=sys.stderr)
        return 1
    unseen = held_out(samples, SEED)
    guess, gains = GainModel().predict(samples.rows), np.array(samples.gains)
    usual = rank_accuracy(guess, samples.gains, samples.kernels)
    error = float(np.sqrt(np.mean((guess - gains) ** 2)))
    model = judged(samples, SEED, f"{len(samples.rows)} trials by scripts/train_shipped.py")
    model.save(shipped_path(device.mcpu))
    print(f"{len(samples.rows)} trials of {len({*samples.kernels})} kernels, {device.mcpu}")
    print(f"unseen kernels: {unseen.accuracy:.3f} of pairs in order, error {unseen.error:.3f}")
    print(f"the evaluator:  {usual:.3f} of pairs in order, error {error:.3f}")
    for name, share in [*model.importances().items()][:10]:
        print(f"{share:.3f} {name}")
    print(shipped_path(device.mcpu))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
