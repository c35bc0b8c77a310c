"""One module of several lowered from one model: an entry each, weights and kernels once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.ir import IRModule

from relay_passes.graph.op_graph import function_hash
from tvm_stitch.frontend.model import ImportedModel
from tvm_stitch.runtime.artifact import Prepared, prepare_name


@dataclass(frozen=True)
class Entries:
    """`mod` has a main for each entry, `entry_name` its name; `places` are its weights' numbers.

    Numbers count `weights`, then what is `prepared` of them.
    """

    mod: IRModule
    weights: tuple[np.ndarray, ...]
    prepared: tuple[Prepared, ...]
    places: tuple[tuple[int, ...], ...]


def entry_name(number: int) -> str:
    return "main" if number == 0 else f"main_{number}"


def joined(lowered: Sequence[tuple[ImportedModel, IRModule]]) -> Entries:
    """Return models of the same weights as one. Equal weights and kernels are there once.

    A model by itself stays as it is.
    """
    if len(lowered) == 1:
        ((model, mod),) = lowered
        count = len(model.weights) + len(model.prepared)
        return Entries(mod, model.weights, model.prepared, (tuple(range(count)),))
    pool, functions = _Weights(), _Functions()
    stored = [[pool.number(array) for array in model.weights] for model, _ in lowered]
    places = []
    for (model, mod), own in zip(lowered, stored, strict=True):
        numbers = list(own)
        for made in model.prepared:
            kernel = functions.preparing(mod[prepare_name(made.kernel)])
            numbers.append(pool.made(replace(made, kernel=kernel, source=numbers[made.source])))
        places.append(tuple(numbers))
    for number, (_, mod) in enumerate(lowered):
        functions.add(mod, entry_name(number))
    mod = IRModule(functions.made, attrs=lowered[0][1].attrs)
    return Entries(mod, tuple(pool.arrays), tuple(pool.prepared), tuple(places))


@dataclass
class _Weights:
    """All weights, each once: by shape, type and bytes."""

    arrays: list[np.ndarray] = field(default_factory=list)
    prepared: list[Prepared] = field(default_factory=list)
    _numbers: dict[tuple, int] = field(default_factory=dict)

    def number(self, array: np.ndarray) -> int:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        key = (array.shape, str(array.dtype), hashlib.sha256(data).digest())
        if key not in self._numbers:
            self._numbers[key] = len(self.arrays)
            self.arrays.append(array)
        return self._numbers[key]

    def made(self, one: Prepared) -> int:
        """Return the number of what is prepared, once all stored ones are known."""
        if one not in self.prepared:
            self.prepared.append(one)
        return len(self.arrays) + self.prepared.index(one)


class _Functions:
    """All functions, kernels that compute the same once."""

    def __init__(self) -> None:
        self.made: dict[ir.GlobalVar, object] = {}
        self._kernels: dict[int, list[tuple[tirx.PrimFunc, ir.GlobalVar]]] = {}
        self._names: set[str] = set()
        self._preparing: list[tirx.PrimFunc] = []

    def preparing(self, func: tirx.PrimFunc) -> int:
        """Return the number of a function that prepares weights."""
        bare = func.without_attr("global_symbol")
        for number, other in enumerate(self._preparing):
            if tvm_ffi.structural_equal(bare, other, map_free_vars=True):
                return number
        self._preparing.append(bare)
        name = prepare_name(len(self._preparing) - 1)
        self._names.add(name)
        self.made[ir.GlobalVar(name)] = bare.with_attr("global_symbol", name)
        return len(self._preparing) - 1

    def add(self, mod: IRModule, entry: str) -> None:
        """Add a module's functions but for those that prepare weights, `main` as the entry."""
        renamed: dict[ir.GlobalVar, ir.GlobalVar] = {}
        graphs = []
        for var, func in mod.functions_items():
            if var.name_hint.startswith(prepare_name(0)[:-1]):
                continue
            if isinstance(func, tirx.PrimFunc):
                renamed[var] = self._kernel(var, func)
            else:
                is_main = var.name_hint == "main"
                name = entry if is_main else self._fresh(var.name_hint)
                renamed[var] = _called(name, var)
                graphs.append((renamed[var], func))

        def replace_var(var: ir.GlobalVar) -> ir.GlobalVar:
            return renamed.get(var, var)

        for var, func in graphs:
            body = tvm_ffi.structural_map(func, [(ir.GlobalVar, replace_var)], order="post")
            symbol = func.attrs.get("global_symbol") if func.attrs else None
            self.made[var] = body.with_attr("global_symbol", var.name_hint) if symbol else body

    def _kernel(self, own: ir.GlobalVar, func: tirx.PrimFunc) -> ir.GlobalVar:
        bare = func.without_attr("global_symbol")
        alike = self._kernels.setdefault(function_hash(func), [])
        for other, var in alike:
            if tvm_ffi.structural_equal(bare, other, map_free_vars=True):
                return var
        var = _called(self._fresh(own.name_hint), own)
        symbol = func.attrs.get("global_symbol") if func.attrs else None
        self.made[var] = func.with_attr("global_symbol", var.name_hint) if symbol else func
        alike.append((bare, var))
        return var

    def _fresh(self, name: str) -> str:
        fresh, number = name, 0
        while fresh in self._names:
            number += 1
            fresh = f"{name}_{number}"
        self._names.add(fresh)
        return fresh


def _called(name: str, like: ir.GlobalVar) -> ir.GlobalVar:
    """Return a variable of a name, of the type of another; that itself if it has the name."""
    if like.name_hint == name:
        return like
    var = ir.GlobalVar(name)
    relax.expr._update_type(var, like.ty)
    return var
