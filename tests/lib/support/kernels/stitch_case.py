"""Cases of the zoo's subgraphs, and what a stitched kernel must show: its TIR and its numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
import zoo
from tvm import ir, relax, tirx
from tvm.ir import IRModule
from zoo.reductions import default_group

from relay_passes.policy import FusionPolicy, Policy
from support.kernels.tir import assert_stitched
from tir_schedules.device import CpuDevice
from tvm_stitch import targets
from tvm_stitch.build import Request, build, lower
from tvm_stitch.runtime.model import Model

_LAUNCHES = [ir.Op.get(name) for name in ("relax.call_tir", "relax.call_tir_inplace")]
EXTENTS = (1, 2, 3, 7, 17, 31, 64, 127, 129, 384, 1000, 1024)
DTYPES = ("float32", "float64", "float16", "bfloat16")
RANKS = (1, 2, 3, 4, 5)
SHORT = 7
MATRIX_ELEMENTS = 1 << 20  # the largest tensor of the full product
NOT_ONE_KERNEL = ("squeeze_excite",)  # two matrix products inside
SUBGRAPHS = [name for name in zoo.SUBGRAPHS if name not in NOT_ONE_KERNEL]

# f32 and f64: the project's bound. Half precision is computed in f32 and rounded once where a
# tensor leaves the kernel: half a unit in the last place of |ref|, taken as a whole one of
# |ref| + max|ref| because constants (an epsilon, 0.044715) are themselves rounded by the exporter.
BOUND = {
    "float64": 1e-12,
    "float32": 1e-5,
    "float16": float(ml_dtypes.finfo(np.float16).eps),
    "bfloat16": float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps),
}


@dataclass(frozen=True)
class Case:
    """One subgraph at one shape, dtype and set of options."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str = "float32"
    options: dict = field(default_factory=dict, hash=False)

    @property
    def id(self) -> str:
        shape = "default" if self.shape is None else "x".join(map(str, self.shape))
        chosen = [f"{k}={v}" for k, v in self.options.items()]
        return "-".join([self.name, *chosen, shape, self.dtype])

    def model(self) -> onnx.ModelProto:
        return zoo.subgraph(self.name, self.shape, self.dtype, **self.options)

    def inputs(self, model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
        """Return random inputs on which f32 can meet the bound.

        Neighbours along a short axis are kept apart: two nearly equal numbers are a normalised row
        whose digits no f32 kernel can know. A sum that leaves a kernel in half precision is exact
        (its terms lie on a grid), as the values behind it are computed from the rounded one.
        """
        arrays = zoo.random_inputs(model, seed)
        exact = bool(self.options.get("with_sum")) and self.dtype in ("float16", "bfloat16")
        for name in (n for n, a in arrays.items() if a.dtype.kind not in "iub"):
            step = 3.0 if name == "x" else 0.0
            arrays[name] = _spread(arrays[name], self._short_axes(arrays[name]), step)
            if exact:
                arrays[name] = _on_grid(arrays[name])
        return arrays

    def _short_axes(self, array: np.ndarray) -> list[int]:
        """Return the axes along which a row, or a group of channels, has few elements."""
        if array.shape != self.shape:
            return []
        axes = {i for i, extent in enumerate(self.shape) if 1 < extent <= SHORT}
        if self.name == "row_then_group":  # a group all of which is near the mean has few digits
            return [len(self.shape) - 1] if default_group(self.shape[-1]) <= SHORT else []
        if self.name == "groupnorm":
            groups = self.options.get("groups") or math.gcd(self.shape[1], 32)
            if math.prod(self.shape[1:]) // groups <= SHORT and self.shape[1] > 1:
                axes.add(1)
        return sorted(axes)

    def reference(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return zoo.reference(self.name, inputs, **self.options)


def _spread(array: np.ndarray, axes: list[int], step: float) -> np.ndarray:
    """Return the array with its neighbours along `axes` at least `step - 2` apart."""
    if not axes:
        return array
    out = np.clip(array.astype(np.float64), -0.5, 0.5)
    for axis in axes:
        odd = np.arange(array.shape[axis]) % 2
        out += step * odd.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    return out.astype(array.dtype)


def _on_grid(array: np.ndarray) -> np.ndarray:
    """Return the array in sixteenths below 4: sums of two are exact in bfloat16."""
    sixteenths = np.clip(np.round(array.astype(np.float64) * 16), -63, 63)
    return (sixteenths / 16).astype(array.dtype)


@dataclass(frozen=True)
class Compiled:
    """A model and the scheduled module it was built from."""

    model: Model
    mod: IRModule

    @property
    def kernels(self) -> dict[str, tirx.PrimFunc]:
        return {
            g.name_hint: f for g, f in self.mod.functions_items() if isinstance(f, tirx.PrimFunc)
        }


def compiled(model: object, threads: int = 2, **keywords: object) -> Compiled:
    """Compile as `tvm_stitch.compile` does, and keep the lowered module that was built."""
    lowered = lower(Request(model, threads=threads, **keywords))
    return Compiled(build(lowered), lowered.mod)


def lowered(model: object, threads: int = 2, **keywords: object) -> IRModule:
    """Return the module that would be built, for tests that run nothing."""
    return lower(Request(model, threads=threads, **keywords)).mod


def device(threads: int = 2) -> CpuDevice:
    return CpuDevice.detect(targets.resolve("x86", threads), threads)


# Numbers


def assert_close(got: dict[str, np.ndarray], expected: dict[str, np.ndarray], bound: float) -> None:
    """Assert `|got - ref| <= bound * (|ref| + max|ref|)`, and the same NaN and infinities.

    A result below the smallest normal number of its type may be off by half a subnormal.
    """
    assert list(got) == list(expected)
    for name, reference in expected.items():
        subnormal = float(ml_dtypes.finfo(got[name].dtype).smallest_subnormal)
        actual = got[name].astype(np.float64)
        assert actual.shape == reference.shape, name
        finite = np.isfinite(reference)
        np.testing.assert_array_equal(actual[~finite], reference[~finite], name)
        if finite.any():
            magnitude = np.abs(reference[finite])
            error = np.abs(actual[finite] - reference[finite])
            limit = bound * (magnitude + magnitude.max()) + subnormal / 2
            worst = int((error - limit).argmax())
            assert (error <= limit).all(), (
                f"{name}: {actual[finite][worst]} for {reference[finite][worst]}, "
                f"off by {error[worst]:.3g}, allowed {limit[worst]:.3g}"
            )


def check(case: Case, seed: int = 1, threads: int = 2) -> Compiled:
    """Assert that a case is one stitched kernel with the numbers of its float64 reference.

    Of a few odd shapes the planner would rather make two; what is shown here is the template.
    """
    onnx_model = case.model()
    built = compiled(onnx_model, threads, policy=Policy(FusionPolicy(doubt=math.inf)))
    inputs = case.inputs(onnx_model, seed)
    assert_close(built.model.run(inputs), case.reference(inputs), BOUND[case.dtype])
    assert built.model.report.kernels == 1, str(built.model.report)
    assert built.model.report.fallbacks == 0, str(built.model.report)
    assert len(launches(built.mod)) == 1
    (kernel,) = built.kernels.values()
    assert_stitched(kernel, device(threads))
    return built


def launches(mod: IRModule) -> list[relax.Call]:
    """Return the kernel calls of `main`."""
    found = []
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            value = getattr(binding, "value", None)
            if isinstance(value, relax.Call) and value.op in _LAUNCHES:
                found.append(value)
    return found


# Shapes and the full product


def variants(name: str) -> list[dict]:
    """Return the option sets of a subgraph: none, and each of the zoo's variants."""
    return [{}, *zoo.SUBGRAPHS[name].variants]


def takes(name: str, options: dict, shape: Sequence[int]) -> bool:
    """Return whether a subgraph with these options exists in `shape`."""
    if len(shape) < zoo.SUBGRAPHS[name].min_rank:
        return False
    for key in ("axis", "axes"):
        chosen = options.get(key, ())
        axes = chosen if isinstance(chosen, tuple) else (chosen,)
        if any(axis >= len(shape) for axis in axes):
            return False
    if shape[min(1, len(shape) - 1)] % options.get("groups", 1):
        return False
    return shape[-1] % options.get("group", 1) == 0


def covering_shapes(seed: int, count: int, limit: int = 1 << 17) -> list[tuple[int, ...]]:
    """Return shapes of every rank in turn, each extent as often as any other."""
    rng = np.random.default_rng(seed)
    shapes, bag = [], []
    for number in range(count):
        rank = RANKS[number % len(RANKS)]
        shape: list[int] = []
        while len(shape) < rank:
            if not bag:
                bag = list(rng.permutation(EXTENTS))
            room = limit // math.prod(shape)
            fitting = [n for n in bag if n <= room] or [1]
            chosen = int(fitting[0])
            if chosen in bag:
                bag.remove(chosen)
            shape.append(chosen)
        shapes.append(tuple(int(n) for n in rng.permutation(shape)))
    return shapes


def full_matrix(
    names: Sequence[str] = tuple(SUBGRAPHS), dtypes: Sequence[str] = DTYPES, seed: int = 0
) -> Iterator[Case]:
    """Yield every subgraph with every option set over ranks 1 to 5, every extent and dtype.

    Ranks 1 and 2 take the whole product of extents, ranks 3 to 5 every ordered pair of extents in
    two of their axes and random ones in the others; tensors above MATRIX_ELEMENTS are left out.
    In dtypes other than f32 one shape in eight is taken.
    """
    rng = np.random.default_rng(seed)
    shapes = [s for rank in (1, 2) for s in itertools.product(EXTENTS, repeat=rank)]
    for rank in (3, 4, 5):
        for first, second in itertools.product(EXTENTS, repeat=2):
            shape = [int(n) for n in rng.choice(EXTENTS, rank)]
            here, there = rng.permutation(rank)[:2]
            shape[here], shape[there] = first, second
            shapes.append(tuple(shape))
    for number, shape in enumerate(dict.fromkeys(shapes)):
        if math.prod(shape) > MATRIX_ELEMENTS:
            continue
        for name in names:
            for options in variants(name):
                if not takes(name, options, shape):
                    continue
                for position, dtype in enumerate(dtypes):
                    if dtype == "float32" or number % 8 == position:
                        yield Case(name, shape, dtype, options)
