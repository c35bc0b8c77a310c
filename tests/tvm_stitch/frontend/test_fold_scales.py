"""What scales a product's result, channel by channel, is folded into the weight."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_stitch
from tvm_stitch.frontend import import_model
from tvm_stitch.frontend.relax_graph.fold_scales import fold_scales

RNG = np.random.default_rng(5)


class Graph:
    """A Relax function under construction: parameters are inputs first, weights behind them."""

    def __init__(self, *shapes, dtype="float32"):
        self.dtype, self.arrays = dtype, {}
        self.inputs = [self._var(f"x{i}", shape) for i, shape in enumerate(shapes)]
        self.builder = relax.BlockBuilder()
        self.steps = []

    def _var(self, name, shape):
        return relax.Var(name, relax.TensorType(shape, self.dtype))

    def weight(self, *shape, value=None):
        array = RNG.uniform(0.5, 2, shape) * RNG.choice([-1, 1], shape)
        var = self._var(f"w{len(self.arrays)}", shape)
        self.arrays[var] = (array if value is None else np.full(shape, value)).astype(self.dtype)
        return var

    def function(self, body):
        """Return the function whose results `body`, called with the builder's emit, gives."""
        with self.builder.function("main", [*self.inputs, *self.arrays]):
            with self.builder.dataflow():
                results = body(self.builder.emit)
                results = [self.builder.emit_output(result) for result in results]
            self.builder.emit_func_output(results if len(results) > 1 else results[0])
        return self.builder.finalize()["main"]

    def fold(self, body):
        main = self.function(body).with_attr("num_input", len(self.inputs))
        return main, fold_scales(main, len(self.inputs), list(self.arrays.values()))


def run(main, inputs, weights):
    mod = tvm.IRModule({"main": main.with_attr("global_symbol", "main")})
    vm = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    result = vm["main"](*(tvm.runtime.tensor(a) for a in (*inputs, *weights)))
    return [t.numpy() for t in ([result] if hasattr(result, "numpy") else result)]


def check(g, body, folded):
    """Fold, and compare what both functions give; `folded`: whether nothing scales any more."""
    main, (after, weights) = g.fold(body)
    relax.analysis.well_formed(after)
    inputs = [RNG.standard_normal([int(n) for n in v.ty.shape.values]).astype(g.dtype)
              for v in g.inputs]  # fmt: skip
    before = run(main, inputs, g.arrays.values())
    for got, want in zip(run(after, inputs, weights), before, strict=True):
        bound = 1e-5 if g.dtype == "float32" else 1e-12
        assert np.all(np.abs(got - want) <= bound * (np.abs(want) + np.abs(want).max(initial=0)))
    left = [op for op in ("R.multiply", "R.divide", "R.subtract") if op in after.script()]
    assert (not left) == folded
    assert len(after.params) == len(g.inputs) + len(weights)
    return after, weights


CONVOLUTIONS = {
    "conv1d": ((2, 4, 9), (6, 4, 3), relax.op.nn.conv1d, {}),
    "conv2d": ((2, 4, 9, 7), (6, 4, 3, 1), relax.op.nn.conv2d, {"strides": 2, "padding": (1, 0)}),
    "conv3d": ((1, 2, 5, 4, 5), (3, 2, 2, 2, 2), relax.op.nn.conv3d, {}),
    "grouped": ((2, 4, 5, 5), (6, 2, 3, 3), relax.op.nn.conv2d, {"groups": 2}),
    "depthwise": ((2, 4, 5, 5), (8, 1, 3, 3), relax.op.nn.conv2d, {"groups": 4}),
    "nhwc": ((2, 5, 5, 4), (6, 4, 3, 3), relax.op.nn.conv2d, {"data_layout": "NHWC"}),
    "hwio": ((2, 5, 5, 4), (3, 3, 4, 6), relax.op.nn.conv2d,
             {"data_layout": "NHWC", "kernel_layout": "HWIO"}),
    "transposed": ((2, 4, 5, 5), (4, 6, 3, 3), relax.op.nn.conv2d_transpose, {"strides": (2, 2)}),
    "transposed-groups": ((2, 4, 5), (4, 3, 3), relax.op.nn.conv1d_transpose, {"groups": 2}),
    "one-channel": ((2, 4, 5, 5), (1, 4, 3, 3), relax.op.nn.conv2d, {}),
}  # fmt: skip


@pytest.mark.long(every=3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_scaled_convolution_has_a_scaled_weight(name, dtype):
    shape, kernel, convolve, options = CONVOLUTIONS[name]
    g = Graph(shape, dtype=dtype)
    w = g.weight(*kernel)
    made = convolve(g.inputs[0], w, **options)
    shape = relax.BlockBuilder().normalize(made).ty.shape.values
    axis = 3 if "data_layout" in options else 1
    ones = [int(n) if a == axis else 1 for a, n in enumerate(shape)]
    bias, scale, shift = (g.weight(*ones) for _ in range(3))

    def body(emit):
        lv = emit(relax.op.add(bias, emit(made)))
        return [relax.op.add(emit(relax.op.multiply(lv, scale)), shift)]

    after, weights = check(g, body, folded=True)
    assert after.script().count("R.add") == 1
    assert len(weights) == 2


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_scaled_product_has_a_scaled_weight(batch):
    g = Graph((*batch, 5, 4))
    w, b, s = g.weight(4, 6), g.weight(6), g.weight(1, 6)

    def body(emit):
        lv = emit(relax.op.subtract(emit(relax.op.matmul(g.inputs[0], w)), b))
        lv = emit(relax.op.divide(lv, s))
        return [relax.op.multiply(relax.const(0.25, "float32"), lv)]

    check(g, body, folded=True)


def test_a_weight_on_the_left_is_scaled_by_rows():
    g = Graph((4, 5))
    w, s = g.weight(6, 4), g.weight(6, 1)
    check(g, lambda emit: [relax.op.multiply(emit(relax.op.matmul(w, g.inputs[0])), s)], True)


def test_what_is_done_before_a_scale_of_zero_is_done_still():
    g = Graph((5, 4))
    w, b, s = g.weight(4, 6), g.weight(6), g.weight(6, value=0)

    def body(emit):
        lv = emit(relax.op.multiply(emit(relax.op.matmul(g.inputs[0], w)), s))
        return [relax.op.add(lv, b)]

    check(g, body, folded=True)


def one_scale(emit, x, w, s):
    return emit(relax.op.multiply(emit(relax.op.matmul(x, w)), s))


def test_a_shared_weight_scaled_alike_is_stored_once():
    g = Graph((5, 4), (3, 4))
    w, s = g.weight(4, 6), g.weight(6)
    _, weights = check(g, lambda emit: [one_scale(emit, x, w, s) for x in g.inputs], folded=True)
    assert [a.shape for a in weights] == [(4, 6)]


def refused(kind, g):
    """Return a body that is left as it is."""
    x, y = g.inputs
    w, s, other = g.weight(4, 6), g.weight(6), g.weight(6)
    three, narrow = g.weight(3), g.weight(4, 1)
    shapes = {"every-element": (6, 6), "other-axis": (6, 1), "wider": (2, 1, 6)}
    others = {name: g.weight(*shape) for name, shape in shapes.items()}

    def body(emit):
        if kind == "scaled-differently":
            return [one_scale(emit, x, w, s), one_scale(emit, y, w, other)]
        if kind == "scaled-once":
            return [one_scale(emit, x, w, s), emit(relax.op.matmul(y, w))]
        if kind == "a-product-of-inputs":
            product = emit(relax.op.matmul(x, emit(relax.op.permute_dims(y))))
            return [relax.op.multiply(product, three)]
        if kind == "one-channel-becomes-six":
            return [one_scale(emit, x, narrow, s)]
        product = emit(relax.op.matmul(x, w))
        if kind == "biased":
            return [emit(relax.op.add(product, other))]
        if kind == "read-elsewhere":
            return [emit(relax.op.multiply(product, s)), emit(relax.op.nn.relu(w))]
        if kind == "two-readers":
            return [emit(relax.op.multiply(product, s)), emit(relax.op.nn.relu(product))]
        if kind == "a-result-too":
            return [product, emit(relax.op.multiply(product, s))]
        if kind == "two-readers-of-a-sum":
            product = emit(relax.op.add(product, other))
            return [emit(relax.op.multiply(product, s)), emit(relax.op.nn.relu(product))]
        if kind == "non-linear-between":
            return [emit(relax.op.multiply(emit(relax.op.nn.relu(product)), s))]
        if kind == "reciprocal":
            return [emit(relax.op.divide(s, product))]
        return [emit(relax.op.multiply(product, others[kind]))]

    return body


@pytest.mark.parametrize(
    "kind",
    ["scaled-differently", "scaled-once", "read-elsewhere", "two-readers", "a-result-too",
     "two-readers-of-a-sum", "non-linear-between", "every-element", "other-axis", "wider",
     "one-channel-becomes-six", "a-product-of-inputs", "reciprocal", "biased"],
)  # fmt: skip
def test_leaves_what_cannot_be_folded_or_would_be_stored_twice(kind):
    g = Graph((6, 4), (3, 4))
    main, (after, weights) = g.fold(refused(kind, g))
    assert after.same_as(main)
    assert all(a is b for a, b in zip(weights, g.arrays.values(), strict=True))


@pytest.mark.parametrize(
    ("dtype", "weight", "scale", "reason"),
    [
        pytest.param("float32", 1e30, 1e30, "not finite", id="overflow"),
        pytest.param("float32", 1.0, np.nan, "not finite", id="nan"),
        pytest.param("float32", 1e-30, 1e-10, "subnormal", id="underflow"),
        pytest.param("float16", 1e-3, 1e-3, "subnormal", id="underflow-of-half"),
    ],
)
def test_leaves_numbers_that_the_weight_cannot_hold(dtype, weight, scale, reason, caplog):
    g = Graph((5, 4), dtype=dtype)
    w, s = g.weight(4, 6, value=weight), g.weight(6, value=scale)
    with caplog.at_level(logging.DEBUG, "tvm_stitch.frontend.relax_graph.fold_scales"):
        main, (after, _) = g.fold(lambda emit: [one_scale(emit, g.inputs[0], w, s)])
    assert after.same_as(main)
    assert reason in caplog.text


def test_a_channel_of_zeros_folds():
    g = Graph((5, 4))
    w, s = g.weight(4, 6), g.weight(6)
    g.arrays[w][:, 2] = 0
    check(g, lambda emit: [one_scale(emit, g.inputs[0], w, s)], folded=True)


def statistics(torch, module):
    """Give batch norms what training would leave in them."""
    for each in module.modules():
        if isinstance(each, torch.nn.modules.batchnorm._BatchNorm):
            for tensor in (each.weight, each.bias, each.running_mean):
                torch.nn.init.uniform_(tensor, -1, 1)
            torch.nn.init.uniform_(each.running_var, 0.5, 2)
    return module.eval()


def nets(torch):
    """Return nets, their inputs and how many scales stay."""
    nn = torch.nn

    class Shared(nn.Module):
        def __init__(self, norms):
            super().__init__()
            self.conv = nn.Conv2d(4, 6, 3)
            self.norms = nn.ModuleList(nn.BatchNorm2d(6) for _ in range(norms))

        def forward(self, x):
            return [norm(self.conv(x + i)) for i, norm in enumerate([*self.norms, *self.norms][:2])]

    class TwoReaders(Shared):
        def forward(self, x):
            y = self.conv(x)
            return self.norms[0](y), y.exp()

    image, line = torch.rand(2, 4, 9, 8), torch.rand(2, 4, 17)
    return {
        "conv": (nn.Sequential(nn.Conv2d(4, 32, 3), nn.BatchNorm2d(32), nn.ReLU()), image, 0),
        "conv-without-bias": (
            nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6)), image, 0),
        "conv1d": (nn.Sequential(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)), line, 0),
        "conv3d": (nn.Sequential(nn.Conv3d(4, 6, 2), nn.BatchNorm3d(6)),
                   torch.rand(1, 4, 3, 4, 5), 0),
        "depthwise": (
            nn.Sequential(nn.Conv2d(4, 8, 3, groups=4), nn.BatchNorm2d(8), nn.ReLU6()), image, 0),
        "grouped": (nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6)), image, 0),
        "transposed": (
            nn.Sequential(nn.ConvTranspose2d(4, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU()), image, 0),
        "transposed-groups": (
            nn.Sequential(nn.ConvTranspose1d(4, 6, 3, groups=2), nn.BatchNorm1d(6)), line, 0),
        "linear": (nn.Sequential(nn.Linear(17, 6), nn.BatchNorm1d(4)), line, 1),
        "linear-features": (nn.Sequential(nn.Linear(17, 6), nn.BatchNorm1d(6)), line[:, 0], 0),
        "shared": (Shared(2), image, 2),
        "shared-and-alike": (Shared(1), image, 0),
        "two-readers": (TwoReaders(1), image, 1),
    }  # fmt: skip


@pytest.mark.long(every=6)
@pytest.mark.parametrize(
    "name",
    ["conv", "conv-without-bias", "conv1d", "conv3d", "depthwise", "grouped", "transposed",
     "transposed-groups", "linear", "linear-features", "shared", "shared-and-alike",
     "two-readers"],
)  # fmt: skip
def test_batch_norms_of_torch_leave_no_scale(name):
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    net, x, scales = nets(torch)[name]
    statistics(torch, net)
    program = torch.export.export(net, (x,))
    assert import_model(program).mod["main"].script().count("R.multiply") == scales
    model = tvm_stitch.compile(program)
    ops = [op for group in model.report.groups for op in group.ops]
    assert sum(op.startswith("multiply") for op in ops) == scales
    fresh = torch.rand_like(x) - 0.5
    with torch.no_grad():
        want = net(fresh)
    got = model(fresh)
    pairs = [(got, want)] if torch.is_tensor(want) else list(zip(got, want, strict=True))
    for one, other in pairs:
        ref = other.numpy()
        assert np.all(np.abs(np.from_dlpack(one) - ref) <= 1e-5 * (np.abs(ref) + np.abs(ref).max()))
