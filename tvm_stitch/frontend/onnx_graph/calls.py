"""Calls of a model's own functions, which inlining copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import DEFAULT_DOMAINS, bodies

MOST_NODES = 1_000_000  # after inlining
Key = tuple[str, str, str]
Functions = Mapping[Key, onnx.FunctionProto]


def check_calls(model: onnx.ModelProto, given: object) -> None:
    """Raise StitchError for functions that call themselves or grow too large, and for misfits."""
    functions: dict[Key, onnx.FunctionProto] = {}
    for function in model.functions:
        if (key := _key(function, function.name)) in functions:
            raise _wrong(given, function, "it is defined twice", "export the model again")
        functions[key] = function
    if not functions:
        return
    sizes: dict[Key, int] = {}
    for key in _callees_first(functions, given):
        function = functions[key]
        sizes[key] = _size(function.node, functions, sizes, given)
        if sizes[key] > MOST_NODES:
            rule = f"it becomes more than {MOST_NODES} nodes where it is called"
            raise _wrong(given, function, rule, "export the model without functions")
    if _size(model.graph.node, functions, sizes, given) > MOST_NODES:
        rule = f"its functions become more than {MOST_NODES} nodes where they are called"
        raise StitchError(given, rule, "export the model without functions")
    for function in functions.values():
        _check_values(function, given)


def _key(of: onnx.FunctionProto | onnx.NodeProto, name: str) -> Key:
    """Return by what calls find a function: two of a name may have different overloads."""
    return "" if of.domain in DEFAULT_DOMAINS else of.domain, name, of.overload


def _callees_first(functions: Functions, given: object) -> list[Key]:
    order, open_ = [], set()
    for start in functions:
        waiting = [(start, False)]
        while waiting:
            key, done = waiting.pop()
            if done:
                open_.remove(key)
                order.append(key)
            elif key in open_:
                rule = "it calls itself"
                raise _wrong(given, functions[key], rule, "export the model without functions")
            elif key not in order:
                open_.add(key)
                waiting.append((key, True))
                waiting += [(callee, False) for callee in _called(functions[key].node, functions)]
    return order


def _called(nodes: Iterable[onnx.NodeProto], functions: Functions) -> dict[Key, None]:
    found: dict[Key, None] = {}
    for node in nodes:
        if (key := _key(node, node.op_type)) in functions:
            found[key] = None
        for body in bodies(node):
            found.update(_called(body.node, functions))
    return found


def _size(
    nodes: Iterable[onnx.NodeProto], functions: Functions, sizes: Mapping[Key, int], given: object
) -> int:
    """Count the nodes after inlining, and check that each call fits its function."""
    count = 0
    for node in nodes:
        key = _key(node, node.op_type)
        count += sizes.get(key, 1)
        if key in functions:
            function = functions[key]
            if len(node.input) > len(function.input) or len(node.output) > len(function.output):
                rule = f"{(node.name or node.output[0])!r} calls it with more operands than it has"
                raise _wrong(given, function, rule, "export the model again")
        for body in bodies(node):
            count += _size(body.node, functions, sizes, given)
    return count


def _check_values(function: onnx.FunctionProto, given: object) -> None:
    """Raise StitchError if a function reads or returns what it does not make.

    The checker looks at the main graph alone, and inlining takes bodies as they are.
    """
    known = set(function.input)
    for node in function.node:
        if unknown := next((name for name in node.input if name and name not in known), None):
            rule = f"nothing before its {node.op_type} makes {unknown!r}"
            raise _wrong(given, function, rule, "export the model again")
        known.update(node.output)
    if unknown := next((name for name in function.output if name not in known), None):
        rule = f"nothing in it makes its result {unknown!r}"
        raise _wrong(given, function, rule, "export the model again")


def _wrong(given: object, function: onnx.FunctionProto, rule: str, remedy: str) -> StitchError:
    return StitchError(f"{given}, function {function.name!r}", rule, remedy)
