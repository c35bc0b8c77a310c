"""Make one function of the planner, the analysis or the emission wrong, in this process.

As a pytest plugin it does so before any test is imported:

    MUTATION=last_lanes PYTHONPATH=tests/lib pytest -p support.mutations.mutation tests/whole
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType

import pytest

_PACKAGES = ("relay_passes", "tir_schedules")
_Cached = type(functools.cache(str))


@dataclass(frozen=True)
class Mutation:
    """`old` in the source of a function, `place` being module:name, becomes `new`.

    `model` names a function of models.py on which `verify` finds it and names one of the
    nodes or operators in `names`; `test` is a test of CI that fails under it. `why` says in words
    what is wrong.
    """

    why: str
    place: str
    old: str
    new: str
    model: str
    names: str
    test: str
    fusion: str = "stitch"

    def function(self) -> FunctionType:
        """Return the function, whatever wraps it. Raises: AttributeError if it is gone."""
        module, _, path = self.place.partition(":")
        found = importlib.import_module(module)
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
        found = getattr(found, "fget", None) or getattr(found, "func", None) or found
        return inspect.unwrap(found)

    def changed(self) -> FunctionType:
        """Return the function with the other source. Raises: ValueError if `old` is not there."""
        right = self.function()
        source = textwrap.dedent(inspect.getsource(right))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.place} has {self.old!r} {source.count(self.old)} times")
        text = "from __future__ import annotations\n" + source.replace(self.old, self.new)
        made: dict[str, object] = {}
        exec(compile(text, f"<{self.place}>", "exec"), right.__globals__, made)
        wrong = made[right.__name__]
        return inspect.unwrap(getattr(wrong, "fget", None) or getattr(wrong, "func", None) or wrong)


@contextmanager
def mutated(mutation: Mutation) -> Iterator[None]:
    """Have it wrong within the block, for whoever holds the function."""
    function = mutation.function()
    code = function.__code__
    function.__code__ = mutation.changed().__code__
    _forget()
    try:
        yield
    finally:
        function.__code__ = code
        _forget()


def _forget() -> None:
    """Empty the caches of all functions there: what a right one answered, a wrong one may not."""
    for held in gc.get_objects():
        if type(held) is _Cached and held.__module__.startswith(_PACKAGES):
            held.cache_clear()


def pytest_configure(config: pytest.Config) -> None:
    if name := os.environ.get("MUTATION"):
        from support.mutations.table import MUTATIONS

        within = mutated(MUTATIONS[name])
        within.__enter__()
        config.add_cleanup(lambda: within.__exit__(None, None, None))
