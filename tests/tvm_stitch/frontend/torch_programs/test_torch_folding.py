"""What a torch.export program makes of its parameters alone is made once, when it is imported."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tvm_stitch
from tvm_stitch.frontend import import_model

torch = pytest.importorskip("torch")
from tvm_stitch.frontend.torch_graph.folding import fold_parameters  # noqa: E402  # it imports torch

nn = torch.nn
normed = nn.utils.parametrizations


def scaled(module: nn.Module, *_: object) -> nn.Module:
    """Return the module with other scales than the norms that it begins with."""
    with torch.no_grad():
        module.parametrizations.weight.original0.mul_(torch.rand(()) + 0.5)
    return module


class Standardised(nn.Conv2d):
    """A convolution by a weight without mean and of variance 1, as in BiT and NFNet."""

    def forward(self, x):
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True)
        weight = (self.weight - mean) * torch.rsqrt(variance + 1e-5)
        return nn.functional.conv2d(x, weight, self.bias, self.stride, self.padding)


class Biased(nn.Module):
    """Scores and a bias that a small network makes of fixed places, as in Swin V2."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 96), nn.ReLU(), nn.Linear(96, 4, bias=False))
        places = torch.stack(torch.meshgrid(*[torch.linspace(-1, 1, 7)] * 2, indexing="ij"), -1)
        self.register_buffer("places", places.reshape(-1, 2))
        self.register_buffer("index", torch.randint(49, (16, 16)))

    def forward(self, x):
        bias = 16 * torch.sigmoid(self.net(self.places)[self.index]).permute(2, 0, 1)
        return torch.softmax(x + bias[None], -1)


class Tied(nn.Module):
    """One normed weight that two products read, and another operator the parameter itself."""

    def __init__(self):
        super().__init__()
        self.v = nn.Parameter(torch.randn(24, 24))

    def forward(self, x):
        w = self.v / self.v.norm(dim=1, keepdim=True)
        return x @ w + (x @ w).relu() @ w.t() + self.v.sum(0)


CASES = {
    "weight_norm_1d": (lambda: scaled(normed.weight_norm(nn.Conv1d(16, 16, 8, padding=4, groups=2),
                                                         dim=2)), (2, 16, 20)),
    "weight_norm_2d": (lambda: scaled(normed.weight_norm(nn.Conv2d(3, 8, 3))), (1, 3, 9, 11)),
    "weight_norm_linear": (lambda: scaled(normed.weight_norm(nn.Linear(20, 33))), (5, 20)),
    "spectral_norm": (lambda: normed.spectral_norm(nn.Linear(20, 33)), (5, 20)),
    "standardised": (lambda: Standardised(3, 16, 3, padding=1), (1, 3, 10, 10)),
    "biased": (Biased, (2, 4, 16, 16)),
    "tied": (Tied, (7, 24)),
}  # fmt: skip


def program_of(name: str, dtype: torch.dtype = torch.float32):
    make, shape = CASES[name]
    module = make().eval().to(dtype)
    x = torch.randn(shape, dtype=dtype)
    with torch.no_grad():
        return torch.export.export(module, (x,), strict=False), module, x


def operators(program) -> set[str]:
    mod = import_model(program).mod
    return {
        binding.value.op.name
        for block in mod["main"].body.blocks
        for binding in block.bindings
        if hasattr(getattr(binding.value, "op", None), "name")
    }


@pytest.mark.long(every=6)
@pytest.mark.parametrize("name", CASES)
def test_the_result_is_pytorchs_and_nothing_is_left_on_the_fallback(name):
    program, module, x = program_of(name)
    model = tvm_stitch.compile(program, threads=2)
    with torch.no_grad():
        ref = copy.deepcopy(module).double()(x.double()).numpy()
    got = np.from_dlpack(model(x))
    assert np.all(np.abs(got - ref) <= 1e-5 * (np.abs(ref) + np.abs(ref).max()))
    assert model.report.fallbacks == 0
    assert not operators(program) & {"relax.sqrt", "relax.rsqrt", "relax.variance", "relax.divide"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_halves_are_pytorchs_halves(dtype):
    program, module, x = program_of("weight_norm_linear", dtype)
    with torch.no_grad():
        ref = module(x).double().numpy()
    got = torch.from_dlpack(tvm_stitch.compile(program, threads=2)(x)).double().numpy()
    assert np.abs(got - ref).max() <= 2e-2 * np.abs(ref).max()


def test_the_program_of_the_user_stays_as_it_is():
    program, _, _ = program_of("weight_norm_2d")
    graph, state = str(program.graph), {k: v.clone() for k, v in program.state_dict.items()}
    import_model(program)
    assert str(program.graph) == graph
    assert state.keys() == program.state_dict.keys()
    assert all(torch.equal(value, program.state_dict[key]) for key, value in state.items())


def test_what_would_be_larger_than_its_weights_is_made_by_each_run():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = (nn.Parameter(torch.randn(n)) for n in (200, 300))

        def forward(self, x):
            mask = self.left[:1].exp().expand(200, 300)  # folded as one number
            return x + torch.outer(self.left, self.right).tanh() + mask

    program = torch.export.export(Outer().eval(), (torch.randn(200, 300),), strict=False)
    weights = import_model(program).weights
    assert sum(array.nbytes for array in weights) <= 4 * (200 + 300 + 1)


def test_a_weight_that_is_read_otherwise_too_makes_no_room():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(300, 100))

        def forward(self, x):
            return (x @ self.w) @ self.w.exp().t() + x @ (self.w.sin() @ self.w.tanh().t())

    program = torch.export.export(Kept().eval(), (torch.randn(2, 300),), strict=False)
    weights = import_model(program).weights
    assert sum(array.nbytes for array in weights) == 4 * 300 * 100
    model, x = tvm_stitch.compile(program, threads=1), torch.randn(2, 300)
    ref = Kept.forward(program.module(), x).detach().numpy()
    got = np.from_dlpack(model(x))
    assert np.all(np.abs(got - ref) <= 1e-4 * (np.abs(ref) + np.abs(ref).max()))


def test_what_is_returned_is_made_all_the_same():
    class Returned(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 3))

        def forward(self, x):
            w = self.w.exp()
            return x @ w, w, self.w

    module, x = Returned().eval(), torch.randn(2, 4)
    program = torch.export.export(module, (x,), strict=False)
    made = tvm_stitch.compile(program, threads=1)(x)
    for got, want in zip(made, module(x), strict=True):
        np.testing.assert_allclose(np.from_dlpack(got), want.detach(), rtol=1e-5, atol=1e-6)


def test_random_numbers_are_drawn_by_each_run():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(5, 5))

        def forward(self, x):
            return x + torch.rand_like(self.w) * self.w.exp()

    program = torch.export.export(Noisy().eval(), (torch.randn(5, 5),), strict=False)
    folded = fold_parameters(program.run_decompositions())
    drawn = [node for node in folded.graph.nodes if "rand" in str(node.target)]
    assert len(drawn) == 1
    assert "folded_0" in folded.state_dict  # exp(w)


def test_torch_compile_sees_a_parameter_that_changes():
    module = scaled(normed.weight_norm(nn.Linear(6, 4))).eval()
    compiled, x = torch.compile(module, backend="tvm_stitch"), torch.randn(3, 6)
    with torch.no_grad():
        for _ in range(2):
            np.testing.assert_allclose(compiled(x), module(x), rtol=1e-4, atol=1e-5)
            module.parametrizations.weight.original0.mul_(3)
        np.testing.assert_allclose(compiled(x), module(x), rtol=1e-4, atol=1e-5)
