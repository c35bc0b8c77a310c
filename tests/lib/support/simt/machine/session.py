"""Models on the simulated GPU, as users run them: python -m support.simt.machine.session FOLDER

Prints a JSON object by what is asked of them.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from zoo.graph import Graph

import tvm_stitch
from support.models import relax_models
from support.models import runtime as models
from support.simt import machine
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import cuda_toolkit


def main(folder: Path) -> dict:
    machine.install()
    onnx_model, weights = models.linear()
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    expected = models.linear_reference(x, weights)
    model, answers = tvm_stitch.compile(onnx_model, "cuda"), {}
    answers["compiled"] = _off(model.run({"input.1": x})["y"], expected)
    before = machine.launched()
    model.run({"input.1": x})
    answers["launches"] = machine.launched() - before
    answers["kernels"] = model.report.kernels
    model.export(folder / "model.so")
    loaded = tvm_stitch.load(folder / "model.so")
    answers["loaded"] = _off(loaded.run({"input.1": x})["y"], expected)
    there = tvm.runtime.tensor(x, tvm.cuda(0))
    made = loaded(there)
    answers["device"] = str(made.device)
    answers["on tensors"] = _off(made.copyto(tvm.cpu()).numpy(), expected)
    wider = tvm.runtime.tensor(np.append(np.float32(0), x), tvm.cuda(0))
    aside = wider._create_view((4, 64), "float32", 4)
    answers["aside of a vector"] = _off(loaded(aside).copyto(tvm.cpu()).numpy(), expected)
    plain = tvm.runtime.load_module(str(folder / "model.so"))
    machine_of_tvm = tvm.relax.VirtualMachine(plain, tvm.cuda(0))
    answers["by TVM alone"] = _off(machine_of_tvm["main"](there).numpy(), expected)
    other = tvm_stitch.compile(models.double(), "cuda")
    answers["two models"] = _off(other.run({"x": x})["y"], 2 * x.astype(np.float64))
    answers["again"] = _off(model.run({"input.1": x})["y"], expected)
    answers["a CPU's tensor"] = _refused(lambda: loaded(tvm.runtime.tensor(x)))
    answers["another shape"] = _refused(lambda: loaded(tvm.runtime.tensor(x[:2], tvm.cuda(0))))
    answers["another name"] = _refused(lambda: loaded.run({"x": x}))
    answers["infinite weights"] = _infinite_weights()
    answers["sum in parts"] = _launches_of_a_sum()
    answers["in a TVM pipeline"] = _in_a_pipeline()
    answers |= _replayed(folder)
    answers["waited for"] = _waited_for(loaded, there)
    machine.limit_memory(1)
    large = tvm_stitch.compile(models.double(shape=(64, 1 << 20)), "cuda")
    answers["no memory"] = _refused(lambda: large.run({"x": np.ones((64, 1 << 20), np.float32)}))
    return answers


def _infinite_weights() -> bool:
    """Return whether zeros of the padding are multiplied by weights that are infinite."""
    graph = Graph("infinite")
    weight = np.ones((3, 2, 3, 3), np.float32)
    weight[1, :, 0] = np.inf
    made = graph.op(
        "Conv", graph.input("x", (1, 2, 4, 5)), graph.initializer("w", weight), pads=[1] * 4
    )
    graph.output(graph.op("Relu", made), "y", (1, 3, 4, 5))
    y = tvm_stitch.compile(graph.model(), "cuda").run({"x": np.ones((1, 2, 4, 5), np.float32)})["y"]
    wrong = np.zeros((3, 4, 5), bool)
    wrong[1, 0] = wrong[1, :, 0] = wrong[1, :, -1] = True  # some of the taps lie in the padding
    return bool(np.array_equal(np.isnan(y[0]), wrong) and np.isinf(y[0, 1, 1:, 1:-1]).all())


def _launches_of_a_sum() -> list[int]:
    """Return how many kernels a sum of everything launches, and how many its report has."""
    graph = Graph("sum")
    graph.output(graph.op("ReduceSum", graph.input("x", (1 << 18,)), keepdims=0), "y", ())
    model, before = tvm_stitch.compile(graph.model(), "cuda"), machine.launched()
    model.run({"x": np.ones(1 << 18, np.float32)})
    return [machine.launched() - before, model.report.kernels]


def _replayed(folder: Path) -> dict:
    """Return how far off calls are of a model whose launches are replayed, and what they launch.

    Each of its layers adds an input, and makes a result that the next one reads.
    """
    graph, rng = Graph("layers"), np.random.default_rng(3)
    made, mask = graph.input("x", (5, 8)), graph.input("mask", (5, 8))
    weights = [rng.standard_normal((8, 8)).astype(np.float32) for _ in range(3)]
    layers = []
    for n, weight in enumerate(weights):
        product = graph.op("MatMul", made, graph.initializer(f"w{n}", weight))
        made = graph.op("Tanh", graph.op("Add", product, mask))
        layers.append(made)
    for n, layer in enumerate(layers):
        graph.output(layer, f"y{n}", (5, 8))
    model = tvm_stitch.compile(graph.model(), "cuda", fusion="none")
    model.export(folder / "layers.so")
    answers: dict = {"replayed": [], "replays": [], "of them": model.report.kernels}
    for each in (model, model, tvm_stitch.load(folder / "layers.so"), model):
        x, mask = (rng.standard_normal((5, 8)).astype(np.float32) for _ in range(2))
        launched, replayed = machine.launched(), machine.replayed()
        got = each.run({"x": x, "mask": mask})
        answers["replays"].append([machine.launched() - launched, machine.replayed() - replayed])
        wanted = x.astype(np.float64)
        for n, weight in enumerate(weights):
            wanted = np.tanh(wanted @ weight + mask)
            answers["replayed"].append(_off(got[f"y{n}"], wanted))
    return answers


def _waited_for(model: tvm_stitch.Model, x: tvm.runtime.Tensor) -> list[int]:
    """Return the streams that calls on others wait for."""
    streams = []
    for stream in (16, 16, 32):
        machine.waited()
        with tvm_ffi.use_raw_stream(tvm.cuda(0), stream):
            model(x)
        streams.append(machine.waited())
    return streams


def _in_a_pipeline() -> float:
    """Return how far off a model is that TVM compiles by our pipeline."""
    model = relax_models.residual_norm_softmax()
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host={"kind": "llvm"})
    compiled = functools.partial(cuda_toolkit.fat_binary, arch="sm_90")
    with target, cuda_toolkit.compiling(compiled):
        built = tvm.compile(model.mod, target, relax_pipeline="tvm_stitch")
    there = [tvm.runtime.tensor(array, tvm.cuda(0)) for array in model.inputs]
    made = tvm.relax.VirtualMachine(built, tvm.cuda(0))["main"](*there)
    return _off(made.numpy(), model.expected[0])


def _off(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest error, as a share of what is allowed."""
    bound = 1e-5 * (np.abs(expected) + np.abs(expected).max())
    return float((np.abs(got - expected) / bound).max())


def _refused(run) -> str:
    try:
        run()
    except StitchError as error:
        return str(error)
    return "not refused"


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
