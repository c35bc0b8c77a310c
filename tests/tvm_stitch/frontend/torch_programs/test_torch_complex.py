"""Complex numbers within a torch.export program: Fourier transforms, rotations, magnitudes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/check_pythons.py)")

import tvm_stitch  # noqa: E402
from tvm_stitch.errors import StitchError  # noqa: E402
from tvm_stitch.torch import backend, report, reset  # noqa: E402

fft, real_of, complex_of = torch.fft, torch.view_as_real, torch.view_as_complex


class Called(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def rotated(x):
    """Turn pairs of numbers by angles that grow with their row, as rotary embeddings do."""
    angles = torch.arange(5.0)[:, None] * torch.tensor([1.0, 0.5, 0.1])
    turns = torch.polar(torch.ones(5, 3), angles).view(1, 5, 3)
    return real_of(complex_of(x.reshape(2, 5, 3, 2)) * turns).flatten(2)


FUNCTIONS = {
    "fftn": lambda x: fft.fftn(x, dim=(1, 2)).real,
    "fft-of-more": lambda x: fft.fft(x, n=9).imag,
    "fft-of-fewer": lambda x: fft.fft(x, n=3, dim=1).real,
    "ifft": lambda x: fft.ifft(x, dim=-2, norm="forward").imag,
    "rfft": lambda x: fft.rfft(x, norm="ortho").abs(),
    "rfft2-of-odd": lambda x: real_of(fft.rfft2(x, dim=(2, 1))),
    "irfft-of-odd": lambda x: fft.irfft(fft.rfft(x, dim=1), n=5, dim=1),
    "irfft2": lambda x: fft.irfft2(fft.rfft2(x) * (2 + 1j), s=(5, 6)),
    "irfft-of-even": lambda x: fft.irfft(complex_of(x.reshape(2, 5, 3, 2)), norm="ortho"),
    "hfft": lambda x: fft.hfft(x[..., :4], n=6),
    "convolved": lambda x: fft.ifft(fft.fft(x) * fft.fft(x).conj()).real,
    "differences": lambda x: real_of(
        fft.rfftn(x) - torch.complex(x[:, :, :4], x[:, :, 2:]) + 3 * -x[:, :, 1:5]
    ),
    "permuted": lambda x: real_of(fft.fft(x).permute(2, 0, 1).reshape(3, 4, 5)),
    "angles": lambda x: complex_of(x.reshape(2, 5, 3, 2)).angle(),
    "stft": lambda x: torch.stft(
        x.reshape(2, 30), 8, 4, window=torch.hann_window(8), return_complex=True
    ).abs(),
    "rotated": rotated,
}


@pytest.mark.long(every=12)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float", "double"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_what_pytorch_makes_of_it(name, dtype):
    if dtype == torch.float64 and name in ("stft", "rotated"):
        dtype = torch.float32  # their constants are
    x = torch.randn(2, 5, 6, dtype=dtype, generator=torch.Generator().manual_seed(1))
    module = Called(FUNCTIONS[name])
    want = module(x)
    got = torch.from_dlpack(tvm_stitch.compile(module, (x,))(x))
    assert got.dtype == want.dtype
    bound = (1e-5 if want.dtype == torch.float32 else 1e-12) * float(want.abs().max())
    torch.testing.assert_close(got, want, rtol=0, atol=2 * bound)


def test_magnitudes_neither_overflow_nor_lose_what_is_infinite():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[3e30, 4e30], [3e-30, 4e-30], [0, 0], [-inf, 1], [inf, nan], [nan, 1.0]])
    module = Called(lambda x: complex_of(x).abs())
    got = tvm_stitch.compile(module, (x,)).run({"x": x.numpy()})["output_0"]
    np.testing.assert_allclose(got, [5e30, 5e-30, 0, inf, inf, nan], rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: real_of(fft.fft(x).sum(1)), "sum_1': it is not imported for complex numbers"),
        (fft.fft, "has complex numbers; hand over torch.view_as_real of them"),
        (lambda x: real_of(fft.fft(x) - fft.fft(x).sub(1, alpha=2)), "added 2 times"),
    ],
    ids=["sum", "result", "alpha"],
)
def test_what_is_left_is_refused_in_one_line(function, told):
    with pytest.raises(StitchError, match=told) as caught:
        tvm_stitch.compile(Called(function), (torch.ones(2, 5, 6),))
    assert "\n" not in str(caught.value)


def test_under_torch_compile_what_is_left_stays_with_pytorch():
    torch._dynamo.reset()
    reset()

    def function(x):
        x = torch.relu(x) * 2 + 1
        x = real_of(fft.fft(x).cumprod(1))
        return torch.softmax(x, -1) - 1

    run, x = torch.compile(Called(function), backend=backend), torch.randn(2, 5, 6)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(run(x), function(x), rtol=1e-4, atol=1e-5)
    assert report().builds >= 1 and not report().eager
