"""torch.compile with our backend: what it computes, when it compiles, and when it leaves it."""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/check_pythons.py)")

from tvm_stitch.errors import StitchError  # noqa: E402
from tvm_stitch.torch import backend, graph, report, reset  # noqa: E402


class Net(torch.nn.Module):
    """A convolution, a normalisation of running statistics, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.out = torch.nn.Linear(4, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.out(x), x.softmax(-1)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    reset()


def compiled(module, **options):
    return torch.compile(module.eval(), backend=backend, options=options)


def close(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_the_backend_is_found_by_its_name():
    # A checkout that was installed before it had one has none.
    found = {each.name: each.value for each in entry_points(group="torch_dynamo_backends")}
    assert found.get("tvm_stitch", "tvm_stitch.torch:backend") == "tvm_stitch.torch:backend"


@torch.no_grad()
def test_a_module_is_compiled_once_a_shape():
    net = Net().eval()
    run = compiled(net)
    for width in (6, 8, 6, 9, 8):
        x = torch.randn(2, 3, width, width)
        close(run(x), net(x))
    assert report().builds == 3
    assert not report().eager and report().kernels


@torch.no_grad()
def test_a_dimension_that_is_specialised_has_graphs_of_its_own():
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Softmax(-1)).eval()
    run = compiled(net)
    for rows in (8, 3, 8, 4, 3, 16, 16):
        x = torch.randn(rows, 6)
        torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda n: n == 8, lambda n: n % 16 == 0])
        close(run(x), net(x))
    assert report().graphs == 3  # of any rows, of 8, and of 16
    assert report().builds == 4
    assert not report().eager


@torch.no_grad()
def test_another_process_compiles_nothing(tmp_path):
    torch.manual_seed(0)
    net = Net().eval()
    for turn in range(2):
        torch._dynamo.reset()
        reset()
        graph._modules.clear()  # as another process has none
        run = compiled(net, cache=tmp_path)
        for width in (6, 8, 6):
            x = torch.randn(2, 3, width, width)
            close(run(x), net(x))
        assert (report().builds, report().loaded) == ((0, 2) if turn else (2, 0))


@torch.no_grad()
def test_other_numbers_are_another_model(tmp_path):
    for _ in range(2):
        torch._dynamo.reset()
        net = Net().eval()
        x = torch.randn(2, 3, 6, 6)
        close(compiled(net, cache=tmp_path)(x), net(x))
    assert report().builds == 2


@torch.no_grad()
def test_parameters_that_change_are_taken_again():
    net, x = Net().eval(), torch.randn(1, 3, 6, 6)
    run = compiled(net)
    close(run(x), net(x))
    net.out.weight.mul_(2)
    net.norm.running_mean.add_(1)
    close(run(x), net(x))
    assert report().builds == 2


@torch.no_grad()
def test_layouts_breaks_and_results_that_are_no_tensors():
    def function(x, y, n):
        z = x.t() @ y + n
        torch._dynamo.graph_break()
        return z * 2, x, n, z.shape[0]

    run = torch.compile(function, backend=backend)
    x, y = torch.randn(5, 4)[:, ::2], torch.randn(3, 5).t()
    made, same, number, extent = run(x, y, 3)
    close(made, (x.t() @ y + 3) * 2)
    assert same is x and number == 3 and extent == 2


def test_a_gradient_is_left_to_pytorch():
    net, x = Net().eval(), torch.randn(1, 3, 6, 6)
    with pytest.warns(UserWarning, match="a gradient is needed"):
        run = compiled(net)
        run(x)[0].sum().backward()
    assert net.out.weight.grad is not None
    assert report().eager == {"a gradient is needed": 1}


@torch.no_grad()
def test_what_is_written_over_is_left_to_pytorch():
    def function(x):
        x.add_(1)
        return x * 2

    x = torch.ones(4)
    with pytest.warns(UserWarning, match="it writes over"):
        close(torch.compile(function, backend=backend)(x), torch.full((4,), 4.0))
    close(x, torch.full((4,), 2.0))


@torch.no_grad()
def test_an_operator_that_is_lacking_is_told_once():
    def function(x):
        return torch.linalg.svdvals(x)

    run, x = torch.compile(function, backend=backend), torch.randn(3, 3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            close(run(x), torch.linalg.svdvals(x))
    assert sum("PyTorch runs a graph itself" in str(each.message) for each in told) == 1


@torch.no_grad()
def test_what_stands_around_a_lacking_operator_is_ours():
    def function(x, y):
        a = torch.relu(x @ y) + 1
        return torch.linalg.svdvals(a).sum() * 2 - a.mean(), a

    x, y = torch.randn(4, 5), torch.randn(5, 4)
    with pytest.warns(UserWarning, match="svd"):
        found = torch.compile(function, backend=backend)(x, y)
    for one, other in zip(found, function(x, y), strict=True):
        close(one, other)
    assert report().builds == 2 and not report().eager
    assert any("svd" in name for name in report().operators)


@torch.no_grad()
def test_report_names_kernels_on_the_fallback_schedule():
    def function(x, places):
        return torch.relu(x).scatter_reduce(1, places, x, "amax")

    x, places = torch.randn(5, 70), torch.randint(0, 70, (5, 70))
    close(torch.compile(function, backend=backend)(x, places), function(x, places))
    assert "scatter_elements" in report().fallback
    assert "on the fallback schedule: scatter_elements" in str(report())


@torch.no_grad()
def test_strict_raises_what_can_t_be_built():
    run = torch.compile(torch.linalg.svdvals, backend=backend, options={"strict": True})
    with pytest.raises(StitchError):
        run(torch.randn(3, 3))


def test_an_unknown_option_is_refused():
    with pytest.raises(Exception, match="tvm_stitch has no such option"):
        torch.compile(Net().eval(), backend=backend, options={"speed": 9})(torch.ones(1, 3, 4, 4))


class Cut(torch.nn.Module):
    """Leaves out as many of the last elements as a tensor says."""

    def forward(self, x, count):
        kept = x.shape[-1] - count.item()
        places = torch.arange(kept) * 2 + 1
        return torch.bucketize(x.exp() * 2 + 1, x[0]), places * places + x.shape[0]


@torch.no_grad()
@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_what_numbers_of_the_data_decide_stays_with_pytorch():
    net = Cut()
    run = compiled(net)
    x = torch.randn(3, 8).sort().values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in map(torch.tensor, (2, 5, 2)):
            close(run(x, count), net(x, count))
    assert report().builds == 1 and not report().eager
