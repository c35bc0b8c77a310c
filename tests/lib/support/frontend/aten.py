"""PyTorch's operators on its own samples: exported, compiled, and compared with eager runs."""

from __future__ import annotations

import functools
import itertools
import random
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import tvm_stitch
from tvm_stitch.errors import StitchError

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")
# Operators that draw anew in each call, or make what is not theirs to say.
_UNTOLD = ("empty", "new_empty", "rand", "randn", "bernoulli", "multinomial", "normal", "cauchy",
           "exponential", "geometric", "log_normal", "uniform", "nn.functional.dropout",
           "nn.functional.rrelu", "nn.functional.alpha_dropout", "nn.functional.feature_",
           "nn.functional.fractional_", "jiterator", "signal.")  # fmt: skip
_BOUND = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
_MOST = 200  # samples that are looked at
# Many integers, and halves, are equal, and of equal numbers any place is as good: what else these
# make is compared. Where halves are cut into bins and pixels PyTorch rounds on the way.
_PLACED = ("kthvalue", "mode", "median", "sort", "topk")
_VAGUE_INTEGERS = ("argsort",)
_VAGUE_HALVES = ("argsort", "histc", "grid_sampler", "nn.functional.grid_sample")
_INTEGERS, _HALVES = ("int64", "int32", "bool"), ("float16", "bfloat16")
_HALF_TYPES = (torch.float16, torch.bfloat16)


@functools.cache
def operators() -> dict[str, Any]:
    """Return PyTorch's descriptions of its operators by their names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    told = (op for op in op_db if not op.name.startswith(_UNTOLD))
    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in told}


def names(dtype: str) -> list[str]:
    """Return the operators that PyTorch has for a type on a CPU."""
    wanted = getattr(torch, dtype)
    vague = _VAGUE_INTEGERS if dtype in _INTEGERS else _VAGUE_HALVES if dtype in _HALVES else ()
    return [
        name
        for name, op in operators().items()
        if wanted in op.supported_dtypes("cpu") and not (vague and name.startswith(vague))
    ]


class Call(torch.nn.Module):
    """A call of an operator whose tensors are the module's inputs."""

    def __init__(self, op: Any, arguments: object) -> None:
        super().__init__()
        self._op = op
        self._leaves, self._spec = pytree.tree_flatten(arguments)
        self._places = [n for n, x in enumerate(self._leaves) if isinstance(x, torch.Tensor)]
        self.given = tuple(self._leaves[n].detach() for n in self._places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return self._op(*args, **kwargs)


def calls(name: str, dtype: str, seed: int, count: int) -> Iterator[Call]:
    """Yield so many calls of an operator, drawn from PyTorch's samples of it, of random numbers."""
    op = operators()[name]
    torch.manual_seed(seed)
    samples = op.sample_inputs("cpu", getattr(torch, dtype))
    drawn = list(itertools.islice(samples, _MOST))
    random.Random(seed).shuffle(drawn)
    is_placed = dtype in (*_INTEGERS, *_HALVES) and name in _PLACED
    for sample in drawn[:count]:
        called = functools.partial(_values, op.op) if is_placed else op.op
        yield Call(called, ((sample.input, *sample.args), sample.kwargs))


def _values(op: Any, *args: object, **kwargs: object) -> torch.Tensor:
    made = op(*args, **kwargs)
    return made if isinstance(made, torch.Tensor) else made[0]


def wrong(call: Call) -> tuple[str, bool]:
    """Return what is wrong of a call, "" if nothing is, and whether it was compiled.

    One that PyTorch itself does not run twice alike, or does not export, tells nothing.
    """
    if not call.given or not all(map(_is_plain, call.given)):
        return "", False
    expected, given = _eager(call), _largest(call.given)
    if expected is None or not _alike(expected, _eager(call)):
        return "", False
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(call, call.given)
    except Exception:  # whatever PyTorch raises for what it does not export
        return "", False
    try:
        model = tvm_stitch.compile(program)
    except StitchError:
        return "", False
    made = pytree.tree_leaves(model(*(each.contiguous() for each in call.given)))
    found = [torch.from_dlpack(each) for each in made]
    if len(found) != len(expected):
        return f"{len(found)} results for {len(expected)}", True
    # Of halves PyTorch rounds, and leaves their range, in steps that we leave out.
    exact = _unrounded(call) if given else None
    pairs = zip(found, expected, exact or expected, strict=True)
    return next(filter(None, (_differs(*pair, given) for pair in pairs)), ""), True


def told(call: Call) -> str:
    """Return a call's arguments in a line."""
    given = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in call.given]
    rest = [x for x in call._leaves if not isinstance(x, torch.Tensor) and x is not None]
    return f"{', '.join(given)}; {rest}"


def _eager(call: Call) -> list[torch.Tensor] | None:
    try:
        made = pytree.tree_leaves(call(*(each.clone() for each in call.given)))
    except Exception:  # a sample that PyTorch refuses is no sample
        return None
    return made if made and all(map(_is_plain, made)) else None


def _unrounded(call: Call) -> list[torch.Tensor] | None:
    """Return what PyTorch makes of a call's halves as float64."""

    def widened(value: object) -> object:
        is_half = isinstance(value, torch.Tensor) and value.dtype in _HALF_TYPES
        is_type = isinstance(value, torch.dtype) and value in _HALF_TYPES
        return value.double() if is_half else torch.float64 if is_type else value

    wide = Call(call._op, pytree.tree_unflatten([*map(widened, call._leaves)], call._spec))
    return _eager(wide)


def _is_plain(value: object) -> bool:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return False
    return not (value.is_complex() or value.is_quantized or value.dtype == torch.uint16)


def _alike(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor] | None) -> bool:
    if other is None:
        return False
    return all(torch.equal(*(x.double().nan_to_num() for x in pair))
               for pair in zip(one, other, strict=True))  # fmt: skip


def _largest(given: Sequence[torch.Tensor]) -> float:
    """Return the largest magnitude of halves, by which PyTorch's own steps are rounded."""
    halves = [each.double().abs() for each in given if each.itemsize == 2 and each.numel()]
    return max((float(x[x.isfinite()].max()) for x in halves if x.isfinite().any()), default=0.0)


def _differs(got: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor, given: float) -> str:
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype}{list(got.shape)} for {expected.dtype}{list(expected.shape)}"
    bad = _far(got, expected, given)
    if exact is not expected and exact.shape == expected.shape:
        bad &= _far(got, exact.to(expected.dtype), given)
    if not bad.any():
        return ""
    one, other = got[bad][0], expected[bad][0]
    return f"{int(bad.sum())} of {bad.numel()}, {one} for {other}"


def _far(got: torch.Tensor, expected: torch.Tensor, given: float) -> torch.Tensor:
    """Return which elements are beyond their bound."""
    one, other = got.double(), expected.double()
    finite = other.isfinite()
    most = float(other[finite].abs().max()) if finite.any() else 0.0
    most = max(most, given) if expected.itemsize == 2 else most
    limit = _BOUND.get(expected.dtype, 0.0) * (other.abs() + most)
    near = ((one - other).abs() <= limit) & finite
    return ~(near | (one == other) | (one.isnan() & other.isnan()))
