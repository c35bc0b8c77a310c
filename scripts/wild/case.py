"""One architecture through one importer: exported, compiled as users compile it, compared."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch

import tvm_stitch
from tvm_stitch.errors import StitchError
from wild.catalogue import ARCHITECTURES
from wild.comparison import error_of_max, reference
from wild.expected import CHANGED_BY_EXPORTER, INVALID, NOT_EXPORTED, REFUSED
from wild.exporters import NotExported, export, suffix

THREADS = 2
BOUND = 1e-4  # max difference over max magnitude of an output


@dataclass(frozen=True)
class Case:
    """A model's file, what it is called with by name, and what it should give."""

    path: Path
    inputs: dict[str, np.ndarray]
    expected: list[np.ndarray]

    @classmethod
    def exported(cls, case: str, folder: Path) -> Case:
        """Export NAME:IMPORTER into `folder`. Raises: NotExported."""
        name, _, importer = case.partition(":")
        example = ARCHITECTURES[name].example()
        path = folder / f"{name}.{importer}{suffix(importer)}"
        expected = reference(example)
        export(example, importer, path)
        return cls(path, {key: value.numpy() for key, value in example.inputs.items()}, expected)

    def compile(self, threads: int = THREADS, **options: object) -> tvm_stitch.Model:
        """Compile through the front door. Raises: StitchError for what is refused."""
        model = torch.export.load(self.path) if self.path.suffix == ".pt2" else self.path
        return tvm_stitch.compile(model, threads=threads, **options)

    def by_onnxruntime(self) -> list[np.ndarray]:
        """Return what ONNX Runtime gives on the exported file."""
        session = onnxruntime.InferenceSession(self.path)
        names = {value.name for value in session.get_inputs()}
        return session.run(None, {k: v for k, v in self.inputs.items() if k in names})

    def run(self, model: tvm_stitch.Model) -> list[np.ndarray]:
        """Run by name, or by position what torch.export wrote, whose names are its own."""
        if self.path.suffix == ".pt2":
            got = model(*map(torch.from_numpy, self.inputs.values()))
            tensors = got if isinstance(got, tuple) else (got,)
            return [torch.from_dlpack(tensor).numpy() for tensor in tensors]
        names = {spec.name for spec in model.meta.inputs}  # exporters drop what nothing reads
        feeds = {name: array for name, array in self.inputs.items() if name in names}
        return list(model.run(feeds).values())


def answer(case: str, **options: object) -> dict:
    """Return what was measured, and `wrong`: a line for each thing that is not as it must be."""
    with tempfile.TemporaryDirectory(prefix="wild-") as folder:
        try:
            exported = Case.exported(case, Path(folder))
        except NotExported as error:
            return _failed("exporter", str(error), NOT_EXPORTED.get(case))
        try:
            model = exported.compile(**options)
        except StitchError as error:
            refused = _failed("refused", str(error), {**REFUSED, **INVALID}.get(case))
            if case in REFUSED:
                model = exported.compile(**options, fallback="onnxruntime")
                refused["error_of_max"] = error_of_max(exported.run(model), exported.expected)
                refused["wrong"] += _beyond(refused["error_of_max"])
            return refused
        expected = exported.expected
        if case in CHANGED_BY_EXPORTER:
            expected = exported.by_onnxruntime()
        as_listed = case not in CHANGED_BY_EXPORTER or _differ(expected, exported.expected)
        error = error_of_max(exported.run(model), expected)
    left = [group.kernel for group in model.report.groups if group.fallback]
    wrong = []
    if not as_listed:
        wrong.append("it is listed as changed by its exporter and is not")
    if case in {**NOT_EXPORTED, **REFUSED, **INVALID}:
        wrong.append("it is listed as failing and does not")
    wrong += _beyond(error)
    if left:
        wrong.append(f"on the fallback schedule: {', '.join(left)}")
    return {"error_of_max": error, "kernels": model.report.kernels, "wrong": wrong}


def _differ(got: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return bool(_beyond(error_of_max(got, expected)))


def _beyond(error: float) -> list[str]:
    return [] if error < BOUND else [f"error of max {error:.3g}, the bound is {BOUND}"]


def _failed(what: str, said: str, reason: str | tuple[str, ...] | None) -> dict:
    parts = (reason,) if isinstance(reason, str) else reason or ()
    expected = bool(parts) and all(part in said for part in parts)
    return {what: said, "wrong": [] if expected else [f"{what}: {said}"]}
