"""Making `tvm.compile(mod, target, relax_pipeline="tvm_stitch")` work after a cheap import."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType

_NAME, _RELAX = "tvm_stitch", "tvm.relax"


def register_when_relax_is_imported() -> None:
    """Register the pipeline now if TVM's Relax is imported, otherwise as soon as it is."""
    if _RELAX in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _RelaxFinder())


def _register() -> None:
    from tvm import relax

    # Relax refuses a name it has: a second import of this package after a reload, say.
    if _NAME in relax.pipeline.PIPELINE_MAP:
        return

    @relax.register_pipeline(_NAME)
    def tvm_stitch() -> object:
        from tvm_stitch import pipeline

        return pipeline.relax_pipeline()


class _RelaxFinder(MetaPathFinder):
    """Finds tvm.relax as everyone does, and notices when it has been executed."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _RELAX or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Noticing(spec.loader)
        return spec


class _Noticing(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _register()
