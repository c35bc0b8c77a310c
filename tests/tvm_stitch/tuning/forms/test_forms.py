"""Forms of ops tuned: the model is measured with each, what is best is kept, and applied."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
import pytest
import tvm
import zoo
from zoo.graph import Graph

import tvm_stitch
from relay_passes.rewrites.choose_winograd import FORMS
from support.tuning.kernels import device
from tir_schedules.decision_source import DecisionSource, using
from tvm_stitch.tuning.forms.choices import Asking, chosen, key_of
from tvm_stitch.tuning.forms.form_policy import FormPolicy
from tvm_stitch.tuning.forms.form_session import FormSession, ModelSubject
from tvm_stitch.tuning.log import Log, PlanChoice
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.builders import ModelBuilder
from tvm_stitch.tuning.measure.outcome import PACE, Outcome
from tvm_stitch.tuning.reuse import LogSource

HERE = device_key(device(2))
ALIKE = {"one": ("a", "b"), "two": ("a", "b", "c"), "alone": ("a",)}


@pytest.fixture
def log(tmp_path):
    with Log.open(tmp_path / "tuning.db", create=True) as made:
        yield made


@pytest.fixture
def path(tmp_path):
    g = Graph("convolution")
    x = g.input("x", (1, 64, 16, 16))
    y = g.op("Conv", x, g.weight("w", (64, 64, 3, 3), std=0.05), pads=[1] * 4)
    g.output(g.op("Relu", y), "y", (1, 64, 16, 16))
    onnx.save(g.model(), tmp_path / "convolution.onnx")
    return tmp_path / "convolution.onnx"


class Usual(DecisionSource):
    """Leaves all as it is."""


def asked(path) -> dict[str, tuple[str, ...]]:
    source = Asking(Usual())
    with using(source):
        tvm_stitch.explain(path, threads=2)
    return source.forms


class FakeCrew:
    """Says that a model takes 100 ns, less what each of its forms saves."""

    pace = PACE

    def __init__(self, saved: Mapping[tuple[str, str], float]) -> None:
        self._saved, self.batches = saved, []

    def take(self, subject: ModelSubject, seed: int) -> None:
        pass

    def measure(self, candidates: list, pace: object = None) -> list[Outcome]:
        self.batches.append(candidates)
        return [self._outcome(each) for each in candidates]

    def _outcome(self, forms: tuple[tuple[str, str], ...]) -> Outcome:
        if ("two", "c") in forms and "c fails" in self._saved:
            return Outcome(forms, error="it failed")
        saved = sum(self._saved.get(pair, 0.0) for pair in forms)
        return Outcome(forms, 100.0 - saved, 100.0, 0.01, 9)


def tuned(log: Log, saved: dict, path, **policy: object) -> tuple[FormSession, FakeCrew]:
    subject, crew = ModelSubject(path, {"threads": 2}), FakeCrew(saved)
    session = FormSession(subject, ALIKE, log, crew, HERE, 1, policy=FormPolicy(**policy))
    session.run(None, None)
    return session, crew


def test_what_is_faster_is_taken_together_and_not_measured_again(log, path):
    saved = {("one", "b"): 10.0, ("two", "b"): 4.0, ("two", "c"): 20.0}
    session, crew = tuned(log, saved, path, batch=2)
    assert dict(session.taken) == {"one": "b", "two": "c"}
    assert (session.ns, session.default_ns) == (70.0, 100.0)
    assert [len(batch) for batch in crew.batches] == [3, 3, 3]
    assert chosen(log, HERE.key, "one", ALIKE["one"]) == "b"
    assert chosen(log, HERE.key, "two", ALIKE["two"]) == "c"
    assert chosen(log, "0" * 64, "two", ALIKE["two"]) == "a"
    assert not tuned(log, saved, path)[1].batches


def test_forms_that_are_slower_together_are_taken_alone(log, path):
    class Crew(FakeCrew):
        def _outcome(self, forms):
            made = super()._outcome(forms)
            return Outcome(forms, 150.0, 100.0, 0.01, 9) if len(forms) > 1 else made

    crew = Crew({("one", "b"): 10.0, ("two", "c"): 20.0})
    session = FormSession(ModelSubject(path, {}), ALIKE, log, crew, HERE, 1)
    session.run(None, None)
    assert session.taken == (("two", "c"),)


def test_what_is_faster_in_one_library_alone_is_not_taken(log, path):
    class Crew(FakeCrew):
        def _outcome(self, forms):
            made = super()._outcome(forms)
            return replace(made, ns=101.0) if forms and len(self.batches) >= 3 else made

    crew = Crew({("one", "b"): 10.0})
    session = FormSession(ModelSubject(path, {}), ALIKE, log, crew, HERE, 1)
    session.run(None, None)
    assert len(crew.batches) == 4
    assert session.taken == () and session.ns == session.default_ns == 100.0


def test_where_nothing_is_faster_the_usual_forms_are_kept(log, path):
    session, crew = tuned(log, {("one", "b"): 0.1, "c fails": 1.0}, path)
    assert session.taken == () and session.ns == session.default_ns == 100.0
    assert chosen(log, HERE.key, "one", ALIKE["one"]) == "a"
    assert not log.regroups(HERE.key)
    assert len(crew.batches) == 1
    assert not tuned(log, {}, path)[1].batches


def test_ctrl_c_leaves_all_ops_to_be_measured_anew(log, path):
    class Crew(FakeCrew):
        def measure(self, candidates, pace=None):
            if self.batches:
                raise KeyboardInterrupt
            return super().measure(candidates, pace)

    subject, policy = ModelSubject(path, {}), FormPolicy(batch=1)
    crew = Crew({("one", "b"): 10.0})
    session = FormSession(subject, ALIKE, log, crew, HERE, 1, policy=policy)
    session.run(None, None)
    assert session.interrupted and session.taken == ()
    assert log.counts()["choices"] == 0


def test_a_budget_ends_it(log, path):
    crew = FakeCrew({})
    session = FormSession(
        ModelSubject(path, {}), ALIKE, log, crew, HERE, 1, policy=FormPolicy(batch=1)
    )
    session.run(1, None)
    assert len(crew.batches) == 1 and session.measured == {"one"}


@pytest.mark.long(every=3)
@pytest.mark.parametrize("form", FORMS)
def test_a_form_that_a_log_has_chosen_is_taken(log, path, form):
    ((op, forms),) = asked(path).items()
    assert {*forms} == {*FORMS}
    choice = PlanChoice(uuid.uuid4().hex, key_of(op), HERE.key, json.dumps(form), 1.0, 2.0, 1.0)
    log.add_choices([HERE], [choice])
    inputs = zoo.random_inputs(onnx.load(path))
    want = tvm_stitch.compile(path, threads=2).run(inputs)
    with using(LogSource(log)):
        model = tvm_stitch.compile(path, threads=2)
    filtered = any("winograd" in group.kernel for group in model.report.groups)
    assert filtered == (FORMS[form] is not None)
    for name, each in model.run(inputs).items():
        np.testing.assert_allclose(each, want[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("choice", ["3", "null", '"upside down"', "[]", "{}", "true", '["direct"]'])
def test_a_choice_that_is_no_form_of_an_op_is_left(log, choice):
    log.add_choices([HERE], [PlanChoice("0" * 32, key_of("op"), HERE.key, choice, 1.0, 2.0, 1.0)])
    assert chosen(log, HERE.key, "op", ("direct", "filtered by 2")) == "direct"


@pytest.mark.long
def test_a_worker_builds_a_model_in_each_form_and_judges_it(path):
    ((op, _),) = asked(path).items()
    builder = ModelBuilder(ModelSubject(path, {"threads": 2}).message())
    candidates = [(), *(((op, form),) for form in FORMS)]
    texts = {str(number): json.dumps(each) for number, each in enumerate(candidates)}
    refused, calls = builder.build(texts)
    assert not refused
    tensors = [tvm.runtime.tensor(array) for array in builder.arrays(seed=1)]
    usual, *others = (builder.run(calls[number], tensors) for number in range(len(candidates)))
    assert any(got[0].tobytes() != usual[0].tobytes() for got in others)
    assert [builder.wrong(got, usual) for got in others] == [None] * len(others)
    spoiled = [np.where(np.arange(usual[0].size).reshape(usual[0].shape) == 7, np.nan, usual[0])]
    assert "result 0 is off by nan" in builder.wrong(spoiled, usual)
