"""What tells a graph of torch.compile's from others, in every process: its code and its numbers."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator

import torch
from torch import fx


def digest_of(module: torch.nn.Module) -> bytes:
    """Return a digest of a graph's operators, with those of graphs in it, and of all it holds."""
    made = hashlib.sha256(torch.__version__.encode())
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            made.update(part.code.encode())
    for name, tensor in _tensors(module):
        made.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        whole = tensor.detach().cpu().contiguous().reshape(-1)
        made.update(whole.view(torch.uint8).numpy().data)
    return made.digest()


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what graphs read of their modules, each attribute once."""
    seen = set()
    for prefix, part in module.named_modules():
        if not isinstance(part, fx.GraphModule):
            continue
        for node in part.graph.nodes:
            name = f"{prefix}.{node.target}"
            if node.op != "get_attr" or name in seen:
                continue
            seen.add(name)
            value = operator.attrgetter(node.target)(part)
            if isinstance(value, torch.Tensor):
                yield name, value
