"""What the gates of a recurrent layer go through: named, with numbers of their own, and clipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.builder import Builder

# By their names in lower case: ONNX's operator, and its attributes with their defaults.
_OPERATORS: dict[str, tuple[str, dict[str, float]]] = {
    "elu": ("Elu", {"alpha": 1.0}),
    "hardsigmoid": ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": ("LeakyRelu", {"alpha": 0.01}),
    "relu": ("Relu", {}),
    "sigmoid": ("Sigmoid", {}),
    "softplus": ("Softplus", {}),
    "softsign": ("Softsign", {}),
    "tanh": ("Tanh", {}),
    "thresholdedrelu": ("ThresholdedRelu", {"alpha": 1.0}),
}
# No operators: alpha * x + beta, alpha * tanh(beta * x).
_SCALED = {"affine": {"alpha": 1.0, "beta": 0.0}, "scaledtanh": {"alpha": 1.0, "beta": 1.0}}


@dataclass(frozen=True)
class Activation:
    """One function; `clip` bounds what it is given, if that is a sum of the gates."""

    kind: str
    numbers: Mapping[str, float]
    clip: float | None

    def __call__(self, build: Builder, value: str, dtype: np.dtype, clips: bool = True) -> str:
        if self.clip is not None and clips:
            low, high = (build.constant(end, dtype) for end in (-self.clip, self.clip))
            value = build("Min", build("Max", value, low), high)
        if self.kind not in _SCALED:
            return build(_OPERATORS[self.kind][0], value, **self.numbers)
        alpha, beta = (build.constant(self.numbers[name], dtype) for name in ("alpha", "beta"))
        if self.kind == "affine":
            return build("Add", build("Mul", value, alpha), beta)
        return build("Mul", build("Tanh", build("Mul", value, beta)), alpha)


def activations(
    attrs: Mapping[str, object], defaults: Sequence[str], directions: int, where: str
) -> list[list[Activation]]:
    """Return the functions of each direction. Raises: StitchError for one that ONNX has not."""
    names = [_text(name) for name in attrs.get("activations", defaults * directions)]
    if len(names) != len(defaults) * directions:
        rule = f"it has {len(names)} activations, not {len(defaults) * directions}"
        raise StitchError(where, rule, "export the model again")
    clip = attrs.get("clip")
    given = {name: iter(attrs.get(f"activation_{name}", ())) for name in ("alpha", "beta")}
    made = [_activation(name, given, clip or None, where) for name in names]
    count = len(defaults)
    return [made[at : at + count] for at in range(0, len(made), count)]


def _text(name: bytes | str) -> str:
    return (name.decode() if isinstance(name, bytes) else name).lower()


def _activation(
    name: str, given: Mapping[str, Callable], clip: float | None, where: str
) -> Activation:
    if name in _SCALED:
        defaults = _SCALED[name]
    elif name in _OPERATORS:
        defaults = _OPERATORS[name][1]
    else:
        raise StitchError(where, f"{name!r} is no activation", "export the model again")
    numbers = {key: float(next(given[key], default)) for key, default in defaults.items()}
    return Activation(name, numbers, clip)
