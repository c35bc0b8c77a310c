"""Kernels as a model that runs nothing else: built as a user's are, called one by one."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, tirx
from tvm.ir import GlobalVar, IRModule


def kernels_module(kernels: Sequence[tirx.PrimFunc], results: int, calls: int = 1) -> IRModule:
    """Return a model whose every scheduled kernel reads the model's inputs.

    The last `results` parameters of each are what it writes. They are called `kernel0`, `kernel1`,
    ... A kernel may be called several times: each call reads the first result of the one before in
    place of the first input.
    """
    builder = relax.BlockBuilder()
    types = [_type(param) for param in kernels[0].params]
    inputs = [relax.Var(f"x{n}", each) for n, each in enumerate(types[:-results])]
    made = [_added(builder, kernel, n) for n, kernel in enumerate(kernels)]
    with builder.function("main", inputs):
        with builder.dataflow():
            returned = []
            for kernel in made:
                values = [inputs[0]]
                for _ in range(calls):
                    call = relax.call_tir(kernel, [values[0], *inputs[1:]], types[-results:])
                    values = _parts(builder, builder.emit(call), results)
                returned += values
            whole = returned[0] if len(returned) == 1 else relax.Tuple(returned)
            output = builder.emit_output(whole)
        builder.emit_func_output(output)
    return builder.finalize()


def _added(builder: relax.BlockBuilder, kernel: tirx.PrimFunc, number: int) -> GlobalVar:
    name = f"kernel{number}"
    return builder.add_func(kernel.with_attr("global_symbol", name), name)


def _parts(builder: relax.BlockBuilder, value: relax.Var, results: int) -> list[relax.Var]:
    return [builder.emit(value[n]) for n in range(results)] if results > 1 else [value]


def _type(param: tirx.Var) -> relax.TensorType:
    return relax.TensorType([int(extent) for extent in param.ty.shape], str(param.ty.dtype))
