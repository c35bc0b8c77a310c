"""What became of the graphs that torch.compile handed over in this process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tvm_stitch.reports.report import Report as ModelReport


@dataclass(frozen=True)
class Report:
    """`graphs` from torch, `builds` of them for the shapes they met, and `kernels` of these.

    `loaded`: builds of other processes, found in a cache.

    `eager`: how many graphs PyTorch runs itself, by the reason; `operators` that it runs between
    models of ours, by their names. `fallback`: kernels that TVM scheduled, by their names.
    """

    graphs: int
    builds: int
    kernels: int
    eager: dict[str, int]
    operators: dict[str, int]
    loaded: int = 0
    fallback: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        told = f"{self.graphs} graphs, {self.builds} builds, {self.kernels} kernels"
        told += f", {self.loaded} from the cache" if self.loaded else ""
        lines = [f"{n} eager: {why}" for why, n in self.eager.items()]
        lines += [f"{n} by PyTorch: {name}" for name, n in self.operators.items()]
        lines += [f"{n} on the fallback schedule: {name}" for name, n in self.fallback.items()]
        return "\n".join([told, *lines])


@dataclass
class _Counted:
    graphs: int = 0
    builds: int = 0
    kernels: int = 0
    loaded: int = 0
    eager: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    fallback: Counter[str] = field(default_factory=Counter)


_counted = _Counted()


def report() -> Report:
    """Return what became of this process's graphs since the start, or since `reset`."""
    counts = _counted.graphs, _counted.builds, _counted.kernels
    left = dict(_counted.eager), dict(_counted.operators)
    return Report(*counts, *left, _counted.loaded, dict(_counted.fallback))


def reset() -> None:
    """Forget what was counted."""
    _counted.__init__()


def count_graph() -> None:
    _counted.graphs += 1


def count_build(model: ModelReport) -> None:
    _counted.builds += 1
    _count_kernels(model)


def count_loaded(model: ModelReport) -> None:
    _counted.loaded += 1
    _count_kernels(model)


def _count_kernels(model: ModelReport) -> None:
    _counted.kernels += model.kernels
    _counted.fallback.update(group.kernel for group in model.groups if group.fallback)


def count_eager(reason: str) -> None:
    _counted.eager[reason] += 1


def count_operators(names: Counter[str]) -> None:
    _counted.operators.update(names)
