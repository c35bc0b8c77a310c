"""Let torchvision be imported where its compiled operators do not load."""

from __future__ import annotations

import torch

_MISSING = ("nms", "qnms")
_libraries = []


def declare() -> None:
    """Declare the operators that torchvision's Python code registers shapes for.

    torchvision 0.28's wheel is built for CUDA: beside a CPU build of PyTorch its library does not
    load and `import torchvision` raises "operator torchvision::nms does not exist". No
    architecture of the catalogue calls them.
    """
    if _libraries or hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "DEF")
    for name in _MISSING:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _libraries.append(library)
