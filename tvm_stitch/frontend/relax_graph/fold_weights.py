"""Compute in NumPy the layout operators that importers leave between weights and their users."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tir_schedules.fuel import spend
from tvm_stitch.frontend.onnx_graph.dedupe import find_twins
from tvm_stitch.frontend.relax_graph.layout_step import LayoutStep, layout_step

# The steps that make a value of a weight.
Layout = tuple[relax.Var, tuple[LayoutStep, ...]]


def fold_weights(
    main: relax.Function,
    inputs: int,
    weights: Sequence[np.ndarray],
    padding_share: float = 0.0,
) -> tuple[relax.Function, list[np.ndarray]]:
    """Fold over the parameters from `inputs` on; the result keeps each used weight once.

    A weight that is read in two layouts stays as it is, unless they are parts of it that are no
    larger together, and so do those that padding would make larger by more than `padding_share` of
    all weights' bytes together.

    rewrite:
        main(x, w): lv = permute_dims(w); gv = matmul(x, lv)
      -> main(x, lv): gv = matmul(x, lv)
    """
    arrays = dict(zip(main.params[inputs:], weights, strict=True))
    twins = find_twins(arrays)
    layouts = _layouts(main, {var: twins.get(var, var) for var in arrays})
    budget = int(padding_share * sum(array.nbytes for array in weights))
    folder = _Folder(layouts, _folded(_read(main, layouts), arrays, budget))
    for twin, first in twins.items():
        folder.set_var_remap(twin, first)
    return keep_used(main, inputs, folder.visit_expr(main.body), arrays | folder.made)


def keep_used(
    main: relax.Function, inputs: int, body: relax.Expr, arrays: Mapping[relax.Var, np.ndarray]
) -> tuple[relax.Function, list[np.ndarray]]:
    """Return `main` with another body, its parameters the inputs and those arrays that it reads."""
    params = [*main.params[:inputs], *arrays]
    everything = relax.Function(params, body, main.ret_ty, main.is_pure)
    body = relax.analysis.remove_all_unused(everything).body
    used = set(relax.analysis.free_vars(body))
    kept = [var for var in arrays if var in used]
    params = [*main.params[:inputs], *kept]
    function = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    return function, [arrays[var] for var in kept]


def _layouts(main: relax.Function, weights: Mapping[relax.Var, relax.Var]) -> dict:
    """Return the layout of each variable that is one of a weight; twins are their first."""
    layouts: dict[relax.Var, Layout] = {var: (first, ()) for var, first in weights.items()}
    for block in main.body.blocks:
        for binding in block.bindings:
            step = layout_step(binding.value)
            source = layouts.get(binding.value.args[0]) if step is not None else None
            if source is not None and isinstance(binding.var, relax.DataflowVar):
                layouts[binding.var] = source[0], (*source[1], step)
    return layouts


def _read(main: relax.Function, layouts: Mapping[relax.Var, Layout]) -> dict[Layout, None]:
    """Return the layouts that something else than a layout operator reads."""
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    readers = [binding.value for binding in bindings if binding.var not in layouts]
    found: dict[Layout, None] = {}
    for value in (*readers, main.body.body):
        for var in relax.analysis.free_vars(value):
            if var in layouts:
                found[layouts[var]] = None
    return found


def _folded(
    read: Iterable[Layout], arrays: Mapping[relax.Var, np.ndarray], budget: int
) -> dict[Layout, np.ndarray]:
    """Return those that take the place of their weight, or share its memory."""
    readings: dict[relax.Var, list[tuple[LayoutStep, ...]]] = {}
    for source, steps in read:
        readings.setdefault(source, []).append(steps)
    folded: dict[Layout, np.ndarray] = {}
    for source, several in readings.items():
        made = _placed(several, arrays[source])
        growth = sum(array.nbytes for array in made.values()) - arrays[source].nbytes
        if growth > budget:
            continue
        chosen = [steps for steps in several if steps and _moved(steps) in made]
        if chosen and not spend("fold_weights", source.name):
            break
        budget -= growth
        for steps in chosen:
            place = _moved(steps)
            folded[source, steps] = _applied(steps[len(place) :], made[place])
    return folded


def _placed(
    several: list[tuple[LayoutStep, ...]], array: np.ndarray
) -> dict[tuple[LayoutStep, ...], np.ndarray]:
    """Return a weight in the one layout it is read in, or in parts; else as it is."""
    places = {_moved(steps) for steps in several}
    if len(places) > 1 and not all(any(s.kind == "cut" for s in place) for place in places):
        return {(): array}
    made = {place: _applied(place, array) for place in places}
    whole = len(made) == 1 or sum(part.nbytes for part in made.values()) <= array.nbytes
    return made if whole else {(): array}


def _moved(steps: tuple[LayoutStep, ...]) -> tuple[LayoutStep, ...]:
    """Return the steps up to the last that moves elements: those behind it are views."""
    last = max((number for number, step in enumerate(steps, 1) if step.moves), default=0)
    return steps[:last]


def _applied(steps: Iterable[LayoutStep], array: np.ndarray) -> np.ndarray:
    return functools.reduce(lambda made, step: step.array(made), steps, array)


@mutator
class _Folder(PyExprMutator):
    """Turns values of the `folded` layouts into parameters; `made` holds these and their arrays."""

    def __init__(
        self, layouts: Mapping[relax.Var, Layout], folded: Mapping[Layout, np.ndarray]
    ) -> None:
        super().__init__()
        self._layouts, self._folded = layouts, folded
        self._params: dict[Layout, relax.Var] = {}
        self.made: dict[relax.Var, np.ndarray] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        layout = self._layouts.get(binding.var)
        if layout not in self._folded:
            super().visit_var_binding_(binding)
            return
        if layout not in self._params:
            param = relax.Var(f"folded_{len(self.made)}", binding.var.ty)
            self._params[layout], self.made[param] = param, self._folded[layout]
        self.set_var_remap(binding.var, self._params[layout])
