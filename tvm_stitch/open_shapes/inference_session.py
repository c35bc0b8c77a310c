"""ONNX Runtime's own way to run a model: scripts change the line that makes the session.

session = tvm_stitch.InferenceSession("bert.onnx")
outputs = session.run(None, {"input_ids": ids, "attention_mask": mask})
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.load import load_structure, parse
from tvm_stitch.open_shapes.specialised import Specialised

_TARGETS = {"CPUExecutionProvider": "x86", "CUDAExecutionProvider": "cuda"}


@dataclass(frozen=True)
class NodeArg:
    """An input or output: `shape` has numbers, and names or None where it is open."""

    name: str
    shape: list[int | str | None]
    type: str


class InferenceSession:
    """A model compiled for each shape at first sight.

    Of `sess_options` the number of threads within an operator counts; of `providers` the first that
    is of a CPU or CUDA.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike | bytes,
        sess_options: Any = None,
        providers: Sequence[str | tuple[str, Mapping]] | None = None,
        provider_options: Sequence[Mapping] | None = None,
        **_keywords: Any,
    ) -> None:
        """Raises: StitchError for what is no ONNX model, or no provider that we have."""
        del provider_options
        if isinstance(path_or_bytes, bytes):
            model = proto = parse(path_or_bytes, "the bytes of a model")
        else:
            model = Path(path_or_bytes)
            proto = load_structure(model)
        self._provider = _provider(providers)
        threads = getattr(sess_options, "intra_op_num_threads", 0) or None
        self._model = Specialised(model, target=_TARGETS[self._provider], threads=threads)
        stored = {tensor.name for tensor in proto.graph.initializer}
        self._inputs = [_argument(v) for v in proto.graph.input if v.name not in stored]
        self._outputs = [_argument(value) for value in proto.graph.output]

    def get_inputs(self) -> list[NodeArg]:
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        return list(self._outputs)

    def get_providers(self) -> list[str]:
        return [self._provider]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, np.ndarray],
        run_options: Any = None,
    ) -> list[np.ndarray]:
        """Return the outputs that are named, all for None, in their order.

        Raises: StitchError for another name, shape or type, and for what can't be compiled.
        """
        del run_options
        known = [value.name for value in self._outputs]
        wanted = known if output_names is None else list(output_names)
        for name in wanted:
            if name not in known:
                given, rule = f"output {name!r}", "the model has no such output"
                raise StitchError(given, rule, f"its outputs are {', '.join(known)}")
        found = self._model.run({name: np.asarray(value) for name, value in input_feed.items()})
        return [found[name] for name in wanted]


def _provider(providers: Sequence[str | tuple[str, Mapping]] | None) -> str:
    names = [each if isinstance(each, str) else each[0] for each in providers or _TARGETS]
    for name in names:
        if name in _TARGETS:
            return name
    rule, remedy = "none of them is ours", f"name one of {', '.join(_TARGETS)}"
    raise StitchError(f"providers {', '.join(names)}", rule, remedy)


def _argument(value: onnx.ValueInfoProto) -> NodeArg:
    tensor = value.type.tensor_type
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    shape = [d.dim_value if d.HasField("dim_value") else d.dim_param or None
             for d in tensor.shape.dim]  # fmt: skip
    return NodeArg(value.name, shape, f"tensor({kind})")
