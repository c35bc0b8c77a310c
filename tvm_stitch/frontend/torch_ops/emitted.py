"""What converters of PyTorch's operators are written in: arguments by name, operators emitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from tvm_stitch.errors import StitchError

from .arithmetic import name_of

Converter = Callable[..., Any]

# What PyTorch adds numbers of a type up in.
WIDER = {"float16": "float32", "bfloat16": "float32"}


class Emitted:
    """Relax's operators for one node: `ops.exp(x)` is relax.op.exp(x), emitted.

    `known` is what PyTorch makes of the node, one of its tensors if it makes several.
    """

    def __init__(self, node: fx.Node, importer: BaseFXGraphImporter) -> None:
        self.node, self.importer = node, importer
        made = node.meta["val"]
        self.known: torch.Tensor = made if isinstance(made, torch.Tensor) else made[0]

    @property
    def dtype(self) -> str:
        return name_of(self.known.dtype)

    def __getattr__(self, name: str) -> Callable[..., relax.Var]:
        op = getattr(relax.op, name)
        return lambda *args, **kwargs: self.importer.block_builder.emit(op(*args, **kwargs))

    def const(self, value: object, dtype: str | None = None) -> relax.Constant:
        return relax.const(value, dtype or self.dtype)

    def cast(self, value: object, dtype: str | None = None) -> relax.Expr:
        """Return a tensor or a number in a type, the node's own if none is given."""
        wanted = dtype or self.dtype
        if not isinstance(value, relax.Expr):
            return relax.const(value, wanted)
        return value if str(value.ty.dtype) == wanted else self.astype(value, wanted)

    def item(self, pair: relax.Expr, result: int) -> relax.Var:
        """Return one of several results."""
        return self.importer.block_builder.emit(relax.TupleGetItem(pair, result))

    def is_read(self, result: int) -> bool:
        """Return whether anything reads one of several results."""
        return any(user.args[1] == result for user in self.node.users)

    def refuse(self, rule: str, remedy: str) -> StitchError:
        return StitchError(f"ExportedProgram, {self.node.target} {self.node.name!r}", rule, remedy)


def by_name(convert: Converter) -> Callable[[fx.Node, BaseFXGraphImporter], Any]:
    """Return a converter that calls another with the operator's arguments by their names.

    Nodes among them are what they became; `self` and `input` are `x`.
    """

    def converted(node: fx.Node, importer: BaseFXGraphImporter) -> Any:
        schema = node.target._schema.arguments
        found = {arg.name: arg.default_value for arg in schema if arg.has_default_value()}
        found.update(zip((arg.name for arg in schema), node.args, strict=False))
        found.update(node.kwargs)
        became = {name: fx.map_arg(arg, importer.env.__getitem__) for name, arg in found.items()}
        for name in ("self", "input"):
            if name in became:
                became["x"] = became.pop(name)
        return convert(Emitted(node, importer), **became)

    return converted
