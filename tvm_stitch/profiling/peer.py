"""The peers: what each is called, the package it needs, and what a worker asks of it.

A peer's module, in `peers`, has `prepare(job) -> Session` and is imported in its own process only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np


class CannotRun(Exception):
    """The peer has no way to run this model; the message is the reason its table row shows."""


@dataclass(frozen=True)
class Job:
    """One model for a peer to prepare: static `shapes` by input name, for the CPU or the `gpu`.

    `target` is ours, and stock TVM's on a GPU; `log` is a tuning log, by its path or URL.
    """

    model: Path
    workdir: Path
    threads: int
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    target: str = "x86"
    log: str | None = None
    profile: Path | None = None
    copy_bytes: int = 0
    gpu: bool = False

    def to_json(self) -> dict[str, object]:
        return {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Job:
        paths = {k: Path(data[k]) for k in ("model", "workdir", "profile") if data[k]}
        shapes = {name: tuple(shape) for name, shape in data["shapes"].items()}
        return cls(**{**data, **paths, "shapes": shapes})


class Session(Protocol):
    """A model ready to run.

    `bind` places one set of inputs where the peer wants them and returns a call that runs the
    model on them and comes back when the result is there; the inputs outlive that call. `fetch`
    turns such a result into arrays in the order of the model's outputs. A session may also have
    `bind_numpy`, for the column that times a call with NumPy arrays in and out.

    On a GPU it may have `wait`: then a call comes back while the GPU works, and `wait` returns when
    the result of the last call, and of all before it, is there.
    """

    facts: dict[str, object]

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]: ...

    def fetch(self, result: object) -> list[np.ndarray]: ...


@dataclass(frozen=True)
class Peer:
    """`module` of `peers` prepares it and needs `package`; `setting` tells a module's peers apart.

    A yardstick is timed beside the others and races with none.
    """

    name: str
    module: str
    package: str
    setting: str = ""
    yardstick: bool = False

    def missing(self) -> str | None:
        """Return why the peer cannot be used in this installation, or None."""
        if find_spec(self.package) is None:
            return f"the Python package {self.package} is not installed"
        return None


PEERS = {
    peer.name: peer
    for peer in (
        Peer("stitch", "stitch", "tvm"),
        Peer("stitch-file", "stitch", "tvm", setting="file"),
        Peer("tvm", "tvm_stock", "tvm"),
        Peer("onnxruntime", "onnxruntime", "onnxruntime"),
        Peer("openvino", "openvino", "openvino", setting="f32"),
        Peer("openvino-default", "openvino", "openvino"),
        Peer("inductor", "inductor", "torch"),
        Peer("inductor-max-autotune", "inductor", "torch", setting="max-autotune"),
        Peer("xla", "xla", "jax"),
        Peer("torch", "torch_native", "torch"),
        Peer("copy", "copy", "numpy", setting="plain", yardstick=True),
        Peer("copy-stream", "copy", "numpy", setting="stream", yardstick=True),
        Peer("copy-gpu", "gpu_copy", "tvm", yardstick=True),
        Peer("fma-peak", "peak", "numpy", yardstick=True),
    )
}
OURS = "stitch"
# What --against takes, and the rows each name stands for.
AGAINST = {
    "tvm": ("tvm",),
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino", "openvino-default"),
    "inductor": ("inductor",),
    "xla": ("xla",),
    "torch": ("torch",),
    "inductor-max-autotune": ("inductor-max-autotune",),
}
# OpenVINO's default computes in bf16 where the CPU can: shown beside the others, never compared.
LOWER_PRECISION = ("openvino-default",)
