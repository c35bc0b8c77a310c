"""The zoo's models, small, compiled as users do it, against ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest
import zoo

import tvm_stitch
from tir_schedules import host
from tir_schedules.device import cpu as device
from tir_schedules.device import profile
from tvm_stitch.build import Request, lower

BOUND = 1e-4  # max difference over max magnitude
QUICK = ("mlp_1", "mha_1", "mha_2")  # check_all.py compares the bytes of all of them
WHOLE = ("bert", "mobilenetv2", "crnn_like", "dien_like", "mlp_2")  # and compiles all of full size


@pytest.fixture(autouse=True)
def as_users_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan for the machine the tests run on, as `compile` does outside them."""
    monkeypatch.setattr(device, "default_profile", profile.default_profile)
    monkeypatch.setattr(device, "host_caches", host.host_caches)


@pytest.mark.long(every=14)
@pytest.mark.parametrize("name", zoo.MODELS)
def test_a_small_model_gives_what_onnx_runtime_gives(name):
    model = zoo.model(name, **zoo.SMALL[name])
    feeds = zoo.random_inputs(model, seed=1)
    got = tvm_stitch.compile(model, threads=2).run(feeds)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for output, expected in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        error = np.abs(got[output.name].astype(np.float64) - expected).max()
        assert error < BOUND * np.abs(expected).max()


@pytest.mark.long
@pytest.mark.parametrize("name", WHOLE)
def test_decisions_for_a_model_of_full_size_are_legal(name):
    """Those that are not end the test, as all tests: support/illegal_defaults."""
    lower(Request(zoo.model(name), "znver4", threads=2))


@pytest.mark.long(every=2)
@pytest.mark.parametrize("name", QUICK)
def test_a_small_model_gives_the_same_bytes_on_any_number_of_threads(name):
    model = zoo.model(name, **zoo.SMALL[name])
    feeds = zoo.random_inputs(model, seed=1)
    given = [tvm_stitch.compile(model, threads=n).run(feeds) for n in (1, 2, 3, 4, 8)]
    for output, expected in given[0].items():
        assert all(outputs[output].tobytes() == expected.tobytes() for outputs in given)
