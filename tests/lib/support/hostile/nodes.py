"""Damage to one node of a graph."""

from __future__ import annotations

import random

import onnx
from onnx import AttributeProto, helper

INTEGERS = (0, 1, 2, 3, 7, -1, -2, -7, 100, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e30, 1e-30, float("nan"), float("inf"), -float("inf"))
STRINGS = (b"", b"\xff\xfe", b"nothing", b"VALID", b"SAME_LOWER", b"reflect")
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "x")
OPERATORS = tuple(sorted({schema.name for schema in onnx.defs.get_all_schemas()}))
# A field that holds a value of each kind of attribute.
FIELDS = {
    AttributeProto.FLOAT: "f", AttributeProto.INT: "i", AttributeProto.STRING: "s",
    AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
}  # fmt: skip


def new_name(graph: onnx.GraphProto, rng: random.Random) -> str:
    """Return the name of some value of the graph, of none, or the empty one."""
    known = [v.name for v in (*graph.input, *graph.output, *graph.initializer)]
    known += [name for node in graph.node for name in (*node.input, *node.output)]
    return rng.choice([*known, "", "unknown", "\0", "a b\n", "x" * 1000])


def _drop(graph, node, _other, _rng) -> None:
    graph.node.remove(node)


def _repeat(graph, node, _other, rng) -> None:
    graph.node.insert(rng.randint(0, len(graph.node)), node)


def _swap(graph, node, _other, rng) -> None:
    partner, copy = rng.choice(graph.node), onnx.NodeProto()
    copy.CopyFrom(node)
    node.CopyFrom(partner)
    partner.CopyFrom(copy)


def _take(graph, _node, other, rng) -> None:
    """Let a node of another model compute an output, from values of this one."""
    if other.graph.node:
        taken = onnx.NodeProto()
        taken.CopyFrom(rng.choice(other.graph.node))
        taken.output[:] = [f"{name}_taken" for name in taken.output]
        taken.input[:] = [new_name(graph, rng) for _ in taken.input]
        graph.node.append(taken)
        graph.output.add(name=rng.choice(taken.output))


def _set_operator(_graph, node, _other, rng) -> None:
    node.op_type = rng.choice((*OPERATORS, ""))


def _set_domain(_graph, node, _other, rng) -> None:
    node.domain = rng.choice(DOMAINS)


def _edit_names(graph, node, _other, rng) -> None:
    names = rng.choice((node.input, node.output))
    match rng.randrange(4):
        case 0 if names:
            del names[rng.randrange(len(names))]
        case 1:
            names.append(new_name(graph, rng))
        case 2 if names and node.output:
            names[rng.randrange(len(names))] = rng.choice(node.output)
        case _ if names:
            names[rng.randrange(len(names))] = new_name(graph, rng)


def _edit_attributes(_graph, node, other, rng) -> None:
    attributes = node.attribute
    match rng.randrange(5):
        case 0 if attributes:
            del attributes[rng.randrange(len(attributes))]
        case 1 if attributes:
            attributes.add().CopyFrom(rng.choice(attributes))
        case 2 if attributes:
            rng.choice(attributes).type = rng.choice(AttributeProto.AttributeType.values())
        case 3:
            theirs = [a for each in other.graph.node for a in each.attribute]
            if theirs:
                attributes.add().CopyFrom(rng.choice(theirs))
        case _:
            _set_new_attribute(node, rng)


def _set_new_attribute(node, rng) -> None:
    """Give an attribute that the operator has, or a wrong one, some value."""
    known = ["axis", "axes", "to", "alpha", "kernel_shape"]
    if onnx.defs.has(node.op_type):
        known += 4 * list(onnx.defs.get_schema(node.op_type).attributes)
    name = rng.choice(known)
    value = rng.choice((rng.choice(INTEGERS), rng.choice(FLOATS), b"", b"\xff", b"SAME_UPPER",
                        [rng.choice(INTEGERS) for _ in range(rng.randint(1, 4))],
                        [rng.choice(FLOATS) for _ in range(rng.randint(1, 4))]))  # fmt: skip
    for old in [a for a in node.attribute if a.name == name]:
        node.attribute.remove(old)
    node.attribute.append(helper.make_attribute(name, value))


def _set_value(_graph, node, _other, rng) -> None:
    """Set a number of an attribute, and keep its kind."""
    numbers = [a for a in node.attribute if a.type in FIELDS]
    if not numbers:
        return
    attribute = rng.choice(numbers)
    field = FIELDS[attribute.type]
    choices = FLOATS if field.startswith("f") else INTEGERS
    if field == "s":
        attribute.s = rng.choice(STRINGS)
    elif field in ("f", "i"):
        setattr(attribute, field, rng.choice(choices))
    elif field != "strings":
        values = getattr(attribute, field)
        if values and rng.random() < 0.7:
            values[rng.randrange(len(values))] = rng.choice(choices)
        elif values and rng.random() < 0.5:
            values.pop()
        else:
            values.append(rng.choice(choices))


NODE_CHANGES = (
    _drop, _repeat, _swap, _take, _take, _take, _set_operator, _set_operator, _set_operator,
    _set_domain, _edit_names, _edit_names, _edit_attributes, _edit_attributes, *[_set_value] * 8,
)  # fmt: skip
