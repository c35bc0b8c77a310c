"""Real architectures exported and compiled as users do it: right through every importer."""

import math
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from wild import case as wild_case
from wild.architecture import Architecture, Example
from wild.case import BOUND, Case
from wild.catalogue import ARCHITECTURES
from wild.cli import main
from wild.comparison import error_of_max, reference
from wild.exporters import EXPORTERS
from wild.values import normal
from wild.weights import randomise

from tir_schedules import host
from tir_schedules.device import cpu as device
from tir_schedules.device import profile
from tvm_stitch.errors import StitchError

# Networks of each library, every exporter; check_all.py has all of them.
COVERING = [
    "falcon_unmasked:torch-export",
    "squeezenet:torch-export",
    "pooled_norms:torch-export",
    "conv3d:torch-export",
    "vit_relpos:onnx-legacy",
    "gru_cells:onnx-legacy",
    "pixel_shuffle:onnx-legacy",
    "autoencoder:onnx-legacy",
    "softmax_over_channels:onnx-legacy",
    "cross_attention:onnx-dynamo",
    "mlp_narrow:onnx-dynamo",
    "rnn_cells:onnx-dynamo",
]
THREADED = ["gru_cells:onnx-legacy", "conv3d:torch-export"]


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    """Return a function that exports a case once for all tests."""
    folder, cases = tmp_path_factory.mktemp("wild"), {}

    def get(name: str) -> Case:
        if name not in cases:
            cases[name] = Case.exported(name, folder)
        return cases[name]

    return get


@pytest.fixture(autouse=True)
def as_users_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan for the machine the tests run on, as `compile` does outside them."""
    monkeypatch.setattr(device, "default_profile", profile.default_profile)
    monkeypatch.setattr(device, "host_caches", host.host_caches)


@pytest.mark.long(every=2)
@pytest.mark.parametrize("case", COVERING)
def test_a_model_is_right(case, exported):
    model = exported(case)
    assert error_of_max(model.run(model.compile()), model.expected) < BOUND


@pytest.mark.long(every=2)
@pytest.mark.parametrize("case", THREADED)
def test_a_model_gives_the_same_bytes_on_any_number_of_threads(case, exported):
    model = exported(case)
    one, eight = (model.run(model.compile(threads)) for threads in (1, 8))
    assert [output.tobytes() for output in one] == [output.tobytes() for output in eight]


def test_what_is_lacking_is_refused_in_one_line(exported):
    with pytest.raises(StitchError, match="inputs do not fit") as error:
        exported("canine:onnx-legacy").compile()
    assert "\n" not in str(error.value)


def test_the_catalogue_is_wide():
    libraries = [architecture.library for architecture in ARCHITECTURES.values()]
    for library, fewest in (
        ("transformers", 100),
        ("timm", 50),
        ("torchvision", 12),
        ("plain", 20),
    ):
        assert libraries.count(library) >= fewest


@pytest.mark.parametrize("name", ["pooled_norms", "decode_step", "unet"])
def test_an_example_is_the_same_twice_and_otherwise_with_another_seed(name):
    first, again, other = (ARCHITECTURES[name].example(seed) for seed in (0, 0, 1))
    with torch.no_grad():
        outputs = [example.module(*example.inputs.values())[0] for example in (first, again, other)]
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


class Hidden(torch.nn.Module):
    """A branch scaled by zero behind a norm whose statistics change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.scale = torch.nn.BatchNorm1d(8), torch.nn.Parameter(torch.zeros(8))
        self.decay = torch.nn.Parameter(torch.log(torch.arange(1.0, 5.0)).repeat(8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * self.norm(x)


def test_random_weights_hide_no_branch_and_keep_what_has_a_structure():
    module = randomise(Hidden(), 0).eval()
    for drawn in (module.scale, module.norm.running_mean, module.norm.weight - 1):
        assert (drawn != 0).all()
    assert (module.norm.running_var > 0.4).all()
    assert (module.decay - torch.log(torch.arange(1.0, 5.0))).abs().max() < 0.6


def test_an_error_is_relative_to_the_largest_element_and_nan_is_infinitely_far():
    expected = [np.array([0.0, -4.0, np.nan, np.inf])]
    assert error_of_max([np.array([1.0, -4.0, np.nan, np.inf], np.float32)], expected) == 0.25
    for wrong in ([np.nan, -4, np.nan, np.inf], [0, -4, 0, np.inf], [0, -4, np.nan, -np.inf]):
        assert error_of_max([np.array(wrong, np.float32)], expected) == math.inf
    assert error_of_max([], expected) == math.inf
    assert error_of_max([np.zeros((4, 1))], expected) == math.inf
    assert error_of_max([np.array([1, 2])], [np.array([1, 3])]) == math.inf
    assert error_of_max([np.array([1, 2])], [np.array([1, 2])]) == 0


@pytest.mark.long
def test_a_failure_that_is_not_listed_is_wrong_and_so_is_a_listed_one_that_works(monkeypatch):
    assert wild_case.answer("canine:onnx-legacy")["wrong"] == []
    monkeypatch.setitem(wild_case.INVALID, "canine:onnx-legacy", "another reason")
    assert "do not fit" in wild_case.answer("canine:onnx-legacy")["wrong"][0]
    monkeypatch.setitem(wild_case.INVALID, "mlp_narrow:onnx-legacy", "it is refused")
    assert wild_case.answer("mlp_narrow:onnx-legacy")["wrong"] == [
        "it is listed as failing and does not"
    ]


def test_each_part_of_a_reason_must_be_in_what_is_said(monkeypatch):
    monkeypatch.setitem(wild_case.INVALID, "canine:onnx-legacy", ("inputs do not fit", "MatMul"))
    assert wild_case.answer("canine:onnx-legacy")["wrong"] == []
    monkeypatch.setitem(wild_case.INVALID, "canine:onnx-legacy", ("inputs do not fit", "another"))
    assert wild_case.answer("canine:onnx-legacy")["wrong"]


def test_a_model_that_its_exporter_leaves_as_it_is_must_not_be_listed_as_changed(monkeypatch):
    monkeypatch.setattr(wild_case, "CHANGED_BY_EXPORTER", {"mlp_narrow:onnx-legacy"})
    assert wild_case.answer("mlp_narrow:onnx-legacy")["wrong"] == [
        "it is listed as changed by its exporter and is not"
    ]


def test_where_float64_alone_overflows_float32_is_the_reference():
    class Overflowing(torch.nn.Module):
        def forward(self, x):
            return (x * (2 if x.dtype == torch.float32 else torch.inf),)

    example = Example(Overflowing(), {"x": torch.ones(3)})
    (output,) = reference(example)
    np.testing.assert_array_equal(output, np.full(3, 2.0, np.float32))


def test_a_wrong_model_is_told(monkeypatch):
    monkeypatch.setattr(wild_case, "BOUND", 0.0)
    assert "the bound is 0.0" in wild_case.answer("mlp_narrow:onnx-legacy")["wrong"][0]


def test_an_exporter_that_fails_is_told(monkeypatch):
    class Branching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    monkeypatch.setitem(
        ARCHITECTURES, "branching", Architecture("plain", Branching, {"x": normal(3)})
    )
    (found,) = wild_case.answer("branching:torch-export")["wrong"]
    assert found.startswith("exporter: ") and "\n" not in found


@pytest.mark.parametrize("importer", EXPORTERS)
def test_the_command_exports_a_model(importer, tmp_path, capsys):
    path = tmp_path / "model"
    assert main(["pooled_norms", "--importer", importer, "-o", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    if importer == "torch-export":
        torch.export.load(path)
    else:
        onnx.checker.check_model(onnx.load(path), full_check=True)


def test_the_command_lists_and_checks(capsys):
    assert main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(ARCHITECTURES)
    assert main(["--check", "softmax_over_channels:onnx-legacy", "canine:onnx-legacy"]) == 0
    right, refused = capsys.readouterr().out.splitlines()
    assert right.endswith("right") and "do not fit" in refused


def test_the_command_knows_its_names(capsys):
    with pytest.raises(SystemExit):
        main(["--check", "nothing"])
    assert "nothing is no case" in capsys.readouterr().err


@pytest.mark.long
def test_what_is_refused_is_right_with_onnxruntime(monkeypatch):
    case = "wav2vec2_masked:onnx-dynamo"
    assert wild_case.answer(case)["wrong"] == []
    monkeypatch.setattr(wild_case, "BOUND", 1e-12)
    (told,) = wild_case.answer(case)["wrong"]
    assert "the bound is 1e-12" in told


@pytest.mark.long(every=5)
@pytest.mark.parametrize("case", sorted(wild_case.INVALID))
def test_what_is_called_invalid_is_refused_by_onnxruntime_too(case, tmp_path):
    with pytest.raises((Fail, InvalidGraph)):
        wild_case.Case.exported(case, tmp_path).by_onnxruntime()
