"""How many kernels XLA launches for a program on a GPU, read from its optimised HLO."""

from __future__ import annotations

import re

# What a program runs itself: its entry, and the parts that are launched as CUDA graphs.
_RUN = re.compile(r"^(?:ENTRY )%?[\w.-]+|^%?[\w.-]*command_buffer[\w.-]*")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = (?:\(.*?\)|\S+) ([\w-]+)\(")
_NO_KERNEL = {
    "after-all",
    "bitcast",
    "call",
    "constant",
    "get-tuple-element",
    "parameter",
    "partition-id",
    "replica-id",
    "tuple",
}
_PRODUCT = re.compile(r"cublas|cudnn|cutlass|gemm|__cuda_conv|= \S+ (?:dot|convolution)\(")


def launches(text: str) -> dict[str, int]:
    """Return the `kernels` of an HLO module's text, and how many of them are `products`."""
    kernels = products = 0
    running = False
    for line in text.splitlines():
        if not line.startswith(" "):
            running = _RUN.match(line) is not None
        elif running and (found := _INSTRUCTION.match(line)) and _launches(found[1]):
            kernels += 1
            products += bool(_PRODUCT.search(line))
    return {"kernels": kernels, "products": products}


def _launches(op: str) -> bool:
    return op not in _NO_KERNEL and not op.endswith("-done")
