"""Compute in NumPy, at import, every node whose inputs are constants."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tvm_stitch.frontend.onnx_graph.graph import (
    Graph,
    attributes,
    bodies,
    has_input,
    value_info,
)
from tvm_stitch.frontend.onnx_graph.narrow import narrow_of

logger = logging.getLogger(__name__)

RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
          "Multinomial", "Dropout"}  # fmt: skip


@dataclass(frozen=True)
class FoldPolicy:
    """How much folds may add to a model: none of it changes a result.

    Results of up to `free_bytes` are always folded, and second layouts of constants up to
    `layout_bytes`; larger ones up to `growth` times their inputs. For weights that are still used
    unfolded, folds may add `duplicate_share` of the weights' bytes.
    """

    free_bytes: int = 1 << 20
    layout_bytes: int = 16 << 10
    growth: int = 2
    duplicate_share: float = 0.05


POLICY = FoldPolicy()


class Folder:
    """Folds nodes of one graph, visited in order after their types are inferred."""

    def __init__(self, graph: Graph, policy: FoldPolicy = POLICY) -> None:
        self.graph, self._policy = graph, policy
        self._uses = graph.uses()
        weights = sum(array.nbytes for array in graph.constants.values())
        self._budget = policy.duplicate_share * weights

    def fold(self, node: onnx.NodeProto) -> bool:
        """Turn the node's outputs into constants; return False if it must stay."""
        shape = _static_shape(self.graph, node)
        if shape is not None:
            self.graph.constants[node.output[0]] = shape
            return True
        if _is_empty(self.graph, node):
            for name in filter(None, node.output):
                known = self.graph.types[name]
                self.graph.constants[name] = np.empty(known.shape, known.dtype)
            return True
        if refuse(self.graph, node, self._policy) is not None:
            return False
        operands = {name: self.graph.constants[name] for name in node.input if name}
        results = _evaluate(self.graph, node, operands)
        if results is None or not self._affords(node, operands, results):
            return False
        self._uses.subtract(operands.keys())
        self.graph.constants.update(zip(filter(None, node.output), results, strict=True))
        return True

    def _affords(self, node: onnx.NodeProto, operands: dict, results: list[np.ndarray]) -> bool:
        """Refuse large results beside a weight that others still read, beyond the budget.

        A second layout of it is no other weight: it can be made when the model is loaded.
        """
        policy = self._policy
        shared = [a for name, a in operands.items() if self._uses[name] > 1]
        added = sum(
            a.nbytes for a in results if not any(np.shares_memory(a, o) for o in operands.values())
        )
        if shared and added > policy.layout_bytes and node.op_type == "Transpose":
            return False
        if added <= policy.free_bytes or added > sum(a.nbytes for a in shared) * policy.growth:
            return True
        if added > self._budget:
            logger.debug("fold: %s kept, its weight is used elsewhere", node.output[0])
            return False
        self._budget -= added
        return True


def _is_empty(graph: Graph, node: onnx.NodeProto) -> bool:
    """Say whether every output is known to have no elements, whatever the inputs hold."""
    known = [graph.types.get(name) for name in node.output if name]
    return all(t is not None and t.bytes == 0 for t in known)


def refuse(graph: Graph, node: onnx.NodeProto, policy: FoldPolicy = POLICY) -> str | None:
    """Say why a node is not folded."""
    if node.domain or node.op_type in RANDOM or any(True for _ in bodies(node)):
        return "not a pure ONNX operator"
    if not all(name in graph.constants for name in node.input if name):
        return "an input is computed"
    read = sum(graph.constants[name].nbytes for name in node.input if name)
    known = [graph.types.get(name) for name in node.output if name]
    if any(t is not None and narrow_of(t.dtype) is not None for t in known):
        return "a result is of a narrow type"
    if any(t is None or t.bytes is None for t in known):
        return "the size of a result is unknown"
    if sum(t.bytes for t in known) > max(policy.free_bytes, policy.growth * read):
        return "the result is much larger than its inputs"
    return None


def _static_shape(graph: Graph, node: onnx.NodeProto) -> np.ndarray | None:
    if node.op_type not in ("Shape", "Size") or node.domain:
        return None
    shape = graph.static_shape(node.input[0])
    if shape is None:
        return None
    if node.op_type == "Size":
        return np.array(np.prod(shape, dtype=np.int64))
    attrs = attributes(node)
    return np.array(shape[attrs.get("start", 0) : attrs.get("end", len(shape))], np.int64)


def _evaluate(
    graph: Graph, node: onnx.NodeProto, operands: dict[str, np.ndarray]
) -> list[np.ndarray] | None:
    if (result := _layout_only(graph, node)) is not None:
        return [result]
    names = [name for name in node.output if name]
    inputs = [value_info(name, a.dtype, a.shape) for name, a in operands.items()]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in names]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "fold", inputs, outputs),
        opset_imports=[onnx.helper.make_opsetid("", graph.opset)],
    )
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, operands)
    except (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        logger.debug("fold: %s %s: %s", node.op_type, node.output[0], error)
        return None
    known = [graph.types[name] for name in names]
    made = [np.asarray(a, t.dtype) for a, t in zip(results, known, strict=True)]
    if any(a.nbytes != t.bytes for a, t in zip(made, known, strict=True)):
        logger.debug("fold: %s %s is not what its inference says", node.op_type, node.output[0])
        return None
    return [a.reshape(t.shape) for a, t in zip(made, known, strict=True)]


def _layout_only(graph: Graph, node: onnx.NodeProto) -> np.ndarray | None:
    """Evaluate what moves or reshapes a weight without the evaluator's copies."""
    if not has_input(node, 0):
        return None
    data, attrs = graph.constants[node.input[0]], attributes(node)
    known = graph.types[node.output[0]]
    match node.op_type:
        case "Identity":
            return data
        case "Transpose" if _is_order(attrs.get("perm"), data.ndim):
            return np.asarray(np.transpose(data, attrs.get("perm")), order="C")
        case "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" if data.nbytes == known.bytes:
            return data.reshape(known.shape)
        case "Cast" if data.dtype == known.dtype:
            return data
    return None


def _is_order(perm: object, rank: int) -> bool:
    """Return whether `perm` names each of so many axes once; None turns them all around."""
    return perm is None or (isinstance(perm, list) and sorted(perm) == [*range(rank)])
