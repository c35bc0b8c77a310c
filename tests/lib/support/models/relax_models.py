"""Small Relax modules that the graph passes are tested on, each with its NumPy answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import ir, relax
from tvm.ir import IRModule
from tvm.relax import op

from tvm_stitch import targets

ROWS, COLUMNS = 96, 384
Emit = Callable[..., object]


@dataclass(frozen=True)
class Relaxed:
    """A module, arrays for its parameters, and the arrays it should return."""

    mod: IRModule
    inputs: tuple[np.ndarray, ...]
    expected: tuple[np.ndarray, ...]
    packed: bool = False  # the arrays are the fields of one parameter


def module(emit: Emit, *inputs: np.ndarray, dataflow: bool = True, name: str = "main") -> IRModule:
    """Return a module whose `name` is `emit(builder, *params)`: an expression, or several."""
    builder = relax.BlockBuilder()
    add_function(builder, name, emit, inputs, dataflow=dataflow)
    return builder.get()


def add_function(
    builder: relax.BlockBuilder,
    name: str,
    emit: Emit,
    inputs: tuple[np.ndarray, ...],
    *,
    dataflow: bool = True,
    private: bool = False,
) -> ir.GlobalVar:
    params = [
        relax.Var(f"x{i}", relax.TensorType(a.shape, str(a.dtype))) for i, a in enumerate(inputs)
    ]
    with builder.function(name, params, private=private):
        if dataflow:
            with builder.dataflow():
                made = emit(builder, *params)
                many = isinstance(made, tuple)
                made = builder.emit_output(relax.Tuple(list(made)) if many else made)
        else:
            made = emit(builder, *params)
            made = builder.emit(relax.Tuple(list(made))) if isinstance(made, tuple) else made
        return builder.emit_func_output(made)


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in shapes)


def cpu(threads: int = 2) -> tvm.target.Target:
    return targets.resolve("x86", threads)


def run(executable: tvm.runtime.Executable, model: Relaxed) -> list[np.ndarray]:
    """Run `main`; return its results, a tuple's fields one by one."""
    machine = relax.VirtualMachine(executable, tvm.cpu())
    tensors = [tvm.runtime.tensor(a) for a in model.inputs]
    made = machine["main"](tensors) if model.packed else machine["main"](*tensors)
    return [t.numpy() for t in _flat(made)]


def _flat(made: object) -> list:
    if hasattr(made, "numpy"):
        return [made]
    return [tensor for field in made for tensor in _flat(field)]


# Modules


def layer_norm(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def softmax(x: np.ndarray) -> np.ndarray:
    exp = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def emit_layer_norm(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    mean = b.emit(op.mean(x, -1, True))
    centred = b.emit(op.subtract(x, mean))
    variance = b.emit(op.mean(b.emit(op.multiply(centred, centred)), -1, True))
    shifted = b.emit(op.add(variance, relax.const(1e-5, "float32")))
    return b.emit(op.divide(centred, b.emit(op.sqrt(shifted))))


def residual_norm_softmax(dataflow: bool = True) -> Relaxed:
    """softmax(layer_norm(x + y)): one group."""
    x, y = arrays((ROWS, COLUMNS), (ROWS, COLUMNS))

    def emit(b, p, q):
        return b.emit(op.nn.softmax(emit_layer_norm(b, b.emit(op.add(p, q)))))

    return Relaxed(module(emit, x, y, dataflow=dataflow), (x, y), (softmax(layer_norm(x + y)),))


def calls_another_function() -> Relaxed:
    """main calls a function of its own between two groups."""
    (x,) = arrays((ROWS, COLUMNS))
    builder = relax.BlockBuilder()
    inner = add_function(
        builder, "inner", lambda b, p: b.emit(op.exp(b.emit(op.negative(p)))), (x,), private=True
    )

    def emit(b, p):
        lifted = b.emit(op.multiply(b.emit(op.abs(p)), relax.const(0.5, "float32")))
        called = b.emit(relax.Call(inner, [lifted]))
        return b.emit(op.nn.softmax(b.emit(op.add(called, p))))

    add_function(builder, "main", emit, (x,))
    return Relaxed(builder.get(), (x,), (softmax(np.exp(-np.abs(x) * 0.5) + x),))


def sorts() -> Relaxed:
    (x,) = arrays((ROWS, COLUMNS))

    def emit(b, p):
        ordered = b.emit(op.sort(b.emit(op.negative(p)), axis=1))
        return b.emit(op.exp(b.emit(op.add(ordered, p))))

    return Relaxed(module(emit, x), (x,), (np.exp(np.sort(-x, 1) + x),))


def cumulates() -> Relaxed:
    (x,) = arrays((ROWS, COLUMNS))

    def emit(b, p):
        total = b.emit(op.cumsum(b.emit(op.tanh(p)), axis=1))
        return b.emit(op.multiply(b.emit(op.abs(total)), p))

    expected = np.abs(np.cumsum(np.tanh(x.astype(np.float64)), 1)) * x
    return Relaxed(module(emit, x), (x,), (expected,))


def takes_the_largest() -> Relaxed:
    (x,) = arrays((ROWS, COLUMNS))

    def emit(b, p):
        both = b.emit(op.topk(b.emit(op.negative(p)), k=4, axis=1, ret_type="both"))
        values, places = (b.emit(relax.TupleGetItem(both, i)) for i in range(2))
        return b.emit(op.exp(values)), places

    places = np.argsort(x, 1)[:, :4]
    return Relaxed(
        module(emit, x), (x,), (np.exp(-np.take_along_axis(x, places, 1)), places.astype(np.int32))
    )


def finds_non_zeros() -> Relaxed:
    (x,) = arrays((7, 5))
    x[x < 0] = 0

    def emit(b, p):
        return b.emit(op.nonzero(b.emit(op.multiply(p, p))))

    return Relaxed(module(emit, x), (x,), (np.array(np.nonzero(x)),))


def splits_and_returns_a_tuple() -> Relaxed:
    """Split, use the fields in two ways, return three of them and one used inside."""
    (x,) = arrays((ROWS, COLUMNS))

    def emit(b, p):
        parts = b.emit(op.split(b.emit(op.tanh(p)), 3, axis=1))
        first, second, third = (b.emit(relax.TupleGetItem(parts, i)) for i in range(3))
        mixed = b.emit(op.add(first, second))
        return first, b.emit(op.nn.softmax(mixed)), mixed, third

    first, second, third = np.split(np.tanh(x.astype(np.float64)), 3, 1)
    expected = (first, softmax(first + second), first + second, third)
    return Relaxed(module(emit, x), (x,), expected)


def takes_a_tuple() -> Relaxed:
    x, y = arrays((ROWS, COLUMNS), (ROWS, COLUMNS))
    field = relax.TensorType(x.shape, "float32")
    pair = relax.Var("pair", relax.TupleType([field, field]))
    builder = relax.BlockBuilder()
    with builder.function("main", [pair]):
        with builder.dataflow():
            first, second = (builder.emit(relax.TupleGetItem(pair, i)) for i in range(2))
            total = builder.emit(op.add(first, second))
            out = builder.emit_output(op.nn.softmax(total))
        builder.emit_func_output(out)
    return Relaxed(builder.get(), (x, y), (softmax(x + y),), packed=True)


def returns_a_value_twice() -> Relaxed:
    (x,) = arrays((ROWS, COLUMNS))

    def emit(b, p):
        doubled = b.emit(op.add(p, p))
        root = b.emit(op.exp(b.emit(op.multiply(doubled, doubled))))
        return root, root, doubled

    doubled = 2 * x.astype(np.float64)
    return Relaxed(
        module(emit, x / 4), (x / 4,), (np.exp((doubled / 4) ** 2),) * 2 + (doubled / 4,)
    )


def has_constants() -> Relaxed:
    """A vector and a scalar constant inside a group; the same vector twice."""
    x, weight = arrays((ROWS, COLUMNS), (COLUMNS,))
    vector = relax.const(weight)

    def emit(b, p):
        scaled = b.emit(op.multiply(p, vector))
        shifted = b.emit(op.add(scaled, relax.const(0.25, "float32")))
        return b.emit(op.nn.softmax(b.emit(op.add(shifted, vector))))

    return Relaxed(module(emit, x), (x,), (softmax(x * weight + 0.25 + weight),))


def two_functions() -> Relaxed:
    """Two public functions with dataflow blocks of their own."""
    (x,) = arrays((ROWS, COLUMNS))
    builder = relax.BlockBuilder()
    add_function(builder, "other", emit_layer_norm, (x,))
    add_function(builder, "main", lambda b, p: emit_layer_norm(b, b.emit(op.exp(p))), (x,))
    return Relaxed(builder.get(), (x,), (layer_norm(np.exp(x)),))


def has_two_blocks() -> Relaxed:
    """Two dataflow blocks with an impure-looking gap between them."""
    (x,) = arrays((ROWS, COLUMNS))
    param = relax.Var("x0", relax.TensorType(x.shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [param]):
        with builder.dataflow():
            first = builder.emit_output(emit_layer_norm(builder, param))
        between = builder.emit(op.abs(first))
        with builder.dataflow():
            second = builder.emit_output(op.nn.softmax(builder.emit(op.negative(between))))
        builder.emit_func_output(second)
    return Relaxed(builder.get(), (x,), (softmax(-np.abs(layer_norm(x))),))


UNHARMED = {
    "residual-norm-softmax": residual_norm_softmax,
    "no-dataflow": lambda: residual_norm_softmax(dataflow=False),
    "calls-another-function": calls_another_function,
    "sort": sorts,
    "cumsum": cumulates,
    "topk": takes_the_largest,
    "nonzero": finds_non_zeros,
    "split-and-tuple-output": splits_and_returns_a_tuple,
    "tuple-input": takes_a_tuple,
    "same-value-twice": returns_a_value_twice,
    "constants": has_constants,
    "two-functions": two_functions,
    "two-blocks": has_two_blocks,
}
