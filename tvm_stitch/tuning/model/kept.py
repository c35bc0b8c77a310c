"""Models in files: beside a log, of a device's trials in it; with the package, of some CPUs."""

from __future__ import annotations

from pathlib import Path

from ..log import DeviceKey, Log
from .gains import GainModel
from .training import Samples, judged, samples_of

_SHIPPED = Path(__file__).parent / "shipped"
_SEED = 0  # of the same trials is made the same model


def model_of(log: Log, device: DeviceKey, mcpu: str) -> GainModel:
    """Return what a log's trials of a device tell, and its error on kernels it was not shown.

    The model that lies beside the log, if that is of the same trials; where these are too few the
    one that is shipped for the CPU. Raises: StitchError if the log, or the file beside it, is none.
    """
    path = beside(log, device)
    if path is not None and path.exists():
        model = GainModel.load(path)
        if model.of == log.learnable(device.key):
            return model
    of, samples = log.learnable(device.key), samples_of_device(log, device)
    return judged(samples, _SEED, of) if samples.suffice else shipped(mcpu)


def keep(log: Log, device: DeviceKey) -> Samples:
    """Write the model of a device's trials beside a log that is a file; return the trials."""
    of, path = log.learnable(device.key), beside(log, device)
    samples = samples_of_device(log, device)
    if path is not None and samples.suffice:
        judged(samples, _SEED, of).save(path)
    return samples


def beside(log: Log, device: DeviceKey) -> Path | None:
    """Return where the model of a device lies, None of a log that is no file."""
    path = log.path
    return None if path is None else path.with_name(f"{path.name}.{device.key[:12]}.model.json")


def shipped(mcpu: str) -> GainModel:
    """Return the model that is shipped for a CPU by LLVM's name, for others the evaluator."""
    path = shipped_path(mcpu)
    return GainModel.load(path) if path.exists() else GainModel()


def shipped_path(mcpu: str) -> Path:
    return _SHIPPED / f"{mcpu}.json"


def samples_of_device(log: Log, device: DeviceKey) -> Samples:
    """Return what can be learned of a device. Raises: StitchError if a trial has no features."""
    return samples_of(log.trials(device=device.key), log.name)
