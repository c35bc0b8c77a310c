"""Read a workload's text back as a kernel, to plan and to judge it: nothing of it is built or run.

The kernel's names are those of the text. What text leaves out, the dtypes of axes, is int64.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ..kernel_ir.expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor
from ..kernel_ir.stage import Kernel, Reduction, Stage

_MOST_EXTENT = 1 << 31
_DTYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|bfloat16|float8_\w+|float4_\w+")
_TENSOR = re.compile(r"t(\d+) (\w+)\[([\d ]*)\]")
_NODE = re.compile(r"  n(\d+) = (.+)")
_LOAD = re.compile(r"t(\d+)\[([^\[\]]*)\]")
_STAGE = re.compile(r"for ((?:a\d+r?:\d+ ?)*): t(\d+)\[([^\[\]]*)\] =(.*)")
_AXIS = re.compile(r"a(\d+)(r?):(\d+)")
_REDUCTION = re.compile(r" (\w+) from (\S+)( drops nan)? (\S+)")
_CONST = re.compile(r"([^:\s]+):(\w+)")


class WorkloadError(ValueError):
    """A text that is no workload: which line of it, and why."""


def read_workload(text: str) -> Kernel:
    """Return the kernel that `workload_of` wrote as this text. Raises: WorkloadError."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        try:
            reader.read(line)
        except (LookupError, ValueError) as error:
            raise WorkloadError(f"line {number}: {error}") from None
    return reader.kernel()


class _Reader:
    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._axes: list[Axis] = []
        self._mine: dict[str, Axis] = {}  # of the stage that is read
        self._nodes: list[Expr] = []
        self._home: dict[Expr, int] = {}  # the stage that a node with axes is of
        self._lines: list[str] = []  # of the stage that comes: its axes are told last
        self._stages: list[Stage] = []
        self._outputs: tuple[Tensor, ...] | None = None

    def read(self, line: str) -> None:
        if self._outputs is not None:
            raise ValueError("something follows the results")
        if found := _TENSOR.fullmatch(line):
            self._tensor(*found.groups())
        elif line.startswith("  "):
            self._lines.append(line)
        elif found := _STAGE.fullmatch(line):
            self._stage(*found.groups())
        elif line.startswith("return"):
            self._outputs = tuple(self._tensor_of(name) for name in line.split()[1:])
        else:
            raise ValueError(f"{line[:80]!r} is no line of a workload")

    def kernel(self) -> Kernel:
        if self._outputs is None:
            raise WorkloadError("the text ends before its results")
        made = {stage.out for stage in self._stages}
        params = [t for t in self._tensors if t in self._outputs or t not in made]
        return Kernel("workload", tuple(params), self._outputs, tuple(self._stages))

    def _tensor(self, number: str, dtype: str, shape: str) -> None:
        if int(number) != len(self._tensors):
            raise ValueError(f"t{number} is not the next tensor")
        extents = tuple(_extent(each) for each in shape.split())
        self._tensors.append(Tensor(f"t{number}", extents, _dtype(dtype)))

    def _tensor_of(self, name: str) -> Tensor:
        return self._tensors[int(name.removeprefix("t"))]

    def _stage(self, axes: str, out: str, index: str, rest: str) -> None:
        self._mine = {}
        for each in axes.split():
            number, reduced, extent = _matched(_AXIS, each).groups()
            self._mine[f"a{number}"] = Axis(f"a{number}", _extent(extent), bool(reduced))
        mine = tuple(self._mine.values())
        if [axis.name for axis in mine] != [f"a{len(self._axes) + n}" for n in range(len(mine))]:
            raise ValueError("axes are not numbered one after the other")
        self._axes += mine
        for line in self._lines:
            self._node(*_matched(_NODE, line).groups())
        self._lines.clear()
        reduction, value = None, rest.removeprefix(" ")
        if any(axis.is_reduce for axis in mine) or " from " in rest:
            kind, identity, drops, value = _matched(_REDUCTION, rest).groups()
            reduction = Reduction(kind, _number(identity), bool(drops))
        tensor, places = self._tensors[int(out)], self._exprs(index.split())
        _check_rank(tensor, places)
        stage = Stage(tensor.name, tensor, mine, places, self._expr(value), reduction)
        read = {load.tensor for each in (*self._stages, stage) for load in each.loads()}
        if tensor in read and all(tensor is not each.out for each in self._stages):
            raise ValueError(f"{tensor.name} is read before it is made")
        self._stages.append(stage)

    def _node(self, number: str, written: str) -> None:
        if int(number) != len(self._nodes):
            raise ValueError(f"n{number} is not the next node")
        if found := _LOAD.fullmatch(written):
            tensor, index = self._tensors[int(found[1])], self._exprs(found[2].split())
            _check_rank(tensor, index)
            self._keep(Load(tensor, index))
            return
        name, *more, dtype = written.split(" ")
        extra = [each for each in more if each.startswith(("'", '"'))]
        arguments = self._exprs(more[len(extra) :])
        extras = tuple(each[1:-1] for each in extra)
        self._keep(Op(name, arguments, _dtype(dtype), extras))

    def _keep(self, node: Expr) -> None:
        """Number a node; one with axes is of the stage that has these."""
        if any(isinstance(kid, AxisRef) or kid in self._home for kid in node.children()):
            self._home[node] = len(self._stages)
        self._nodes.append(node)

    def _exprs(self, words: Sequence[str]) -> tuple[Expr, ...]:
        return tuple(self._expr(word) for word in words)

    def _expr(self, word: str) -> Expr:
        if re.fullmatch(r"n\d+", word):
            node = self._nodes[int(word[1:])]
            if self._home.get(node, len(self._stages)) != len(self._stages):
                raise ValueError(f"{word} has axes of another stage")
            return node
        if re.fullmatch(r"a\d+", word):
            return AxisRef(self._mine[word])
        value, dtype = _matched(_CONST, word).groups()
        return Const(_number(value), _dtype(dtype))


def _check_rank(tensor: Tensor, index: Sequence[Expr]) -> None:
    if len(tensor.shape) != len(index):
        raise ValueError(f"{tensor.name} has {len(tensor.shape)} axes, not {len(index)}")


def _dtype(text: str) -> str:
    return _matched(_DTYPE, text)[0]


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is not as a workload has it")
    return found


def _extent(text: str) -> int:
    if len(text) > 10 or int(text) >= _MOST_EXTENT:
        raise ValueError(f"an extent of {text[:20]}")
    return int(text)


def _number(text: str) -> int | float | bool:
    if text in ("True", "False"):
        return text == "True"
    value = float(text)
    is_integer = re.fullmatch(r"-?\d+", text) is not None
    return int(text) if is_integer and not math.isinf(value) else value
