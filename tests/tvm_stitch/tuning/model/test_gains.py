"""The model of gains: it learns, is kept as JSON, and a file that is none is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.model import rows
from tvm_stitch.tuning.model.gains import GainModel, gain_of, rank_accuracy
from tvm_stitch.tuning.model.rows import PREDICTED, row_of, value_of


def samples(count: int, seed: int) -> tuple[list[dict[str, float]], list[float]]:
    """Gains that follow from two features and their product."""
    rng = np.random.default_rng(seed)
    made, gains = [], []
    for lanes, rows_, noise in rng.uniform(-1, 1, (count, 3)):
        made.append({"lanes": lanes, "rows": rows_, "noise": noise})
        gains.append(lanes - lanes * rows_)
    return made, gains


@pytest.fixture(scope="module")
def model():
    return GainModel.fitted(*samples(600, seed=1), seed=0)


def test_it_orders_what_it_has_not_seen(model):
    made, gains = samples(200, seed=2)
    assert rank_accuracy(model.predict(made), gains, ["k"] * 200) > 0.8
    assert [*model.importances()][-1] == "noise"
    assert sum(model.importances().values()) == pytest.approx(1.0)


def test_without_data_it_predicts_as_the_evaluator():
    assert GainModel().predict([{PREDICTED: -1.0}, {PREDICTED: 0.5}, {}]) == pytest.approx(
        [1.0, -0.5, 0.0]
    )


def test_trees_more_learn_what_one_kernel_has_of_its_own(model):
    made, gains = samples(60, seed=3)
    own = [gain + 1.0 for gain in gains]
    refined = model.refined(made, own, seed=0)
    before, after = (np.abs(each.predict(made) - own).mean() for each in (model, refined))
    assert after < before / 3


def test_of_one_kernel_features_are_learned_that_others_have_not(model):
    made, gains = samples(60, seed=3)
    told = [row | {"its own": float(number % 2)} for number, row in enumerate(made)]
    own = [gain + number % 2 for number, gain in enumerate(gains)]
    refined = model.refined(told, own, seed=0)
    before, after = (np.abs(each.predict(told) - own).mean() for each in (model, refined))
    assert after < before / 3


def test_what_a_row_was_not_told_of_is_no_difference_of_0():
    row = row_of({"lanes": 4.0, "tasks": 1.0}, {"lanes": 4.0, "tasks": 0.0})
    values = [value_of(row, f"{name} less the default's") for name in ("lanes", "tasks", "rows")]
    assert values[:2] == [0.0, 1.0] and math.isnan(values[2])


def test_a_model_survives_its_file(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    made, _ = samples(50, seed=4)
    assert np.array_equal(GainModel.load(path).predict(made), model.predict(made))


def test_a_feature_that_is_new_or_gone_is_no_error(model):
    assert np.isfinite(model.predict([{"lanes": 0.5, "else": 3.0}, {}])).all()


def damaged(raw: bytes, damage) -> bytes:
    data = json.loads(raw)
    damage(data["learner"])
    return json.dumps(data).encode()


def tree(learner: dict) -> dict:
    return learner["gradient_booster"]["model"]["trees"][0]


DAMAGES = {
    "empty": lambda raw: b"",
    "no-json": lambda raw: b"\x80\x04cos\nsystem\n",
    "list": lambda raw: b"[]",
    "another-json": lambda raw: b'{"learner": {}}',
    "cut": lambda raw: raw[:-200],
    "deep": lambda raw: b"[" * 200_000,
    "child-outside": lambda raw: damaged(
        raw, lambda m: tree(m)["left_children"].__setitem__(0, 1 << 20)
    ),
    "child-is-its-parent": lambda raw: damaged(
        raw, lambda m: tree(m)["right_children"].__setitem__(2, 0)
    ),
    "feature-outside": lambda raw: damaged(
        raw, lambda m: tree(m)["split_indices"].__setitem__(0, 99)
    ),
    "short-list": lambda raw: damaged(raw, lambda m: tree(m)["split_conditions"].pop()),
    "text-for-a-child": lambda raw: damaged(
        raw, lambda m: tree(m)["left_children"].__setitem__(0, "1")
    ),
    "more-trees-than-there-are": lambda raw: damaged(
        raw,
        lambda m: m["gradient_booster"]["model"]["gbtree_model_param"].update(num_trees="9999"),
    ),
    "a-name-less": lambda raw: damaged(raw, lambda m: m["feature_names"].pop()),
    "linear": lambda raw: damaged(raw, lambda m: m["gradient_booster"].update(name="gblinear")),
    "no-objective": lambda raw: damaged(raw, lambda m: m.pop("objective")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_no_model_is_refused_in_one_line(model, tmp_path, damage):
    path = tmp_path / "model.json"
    model.save(path)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(StitchError, match="is no model of gains") as refused:
        GainModel.load(path)
    assert "\n" not in str(refused.value)


def test_a_missing_model_is_refused(tmp_path):
    with pytest.raises(StitchError, match="No such file"):
        GainModel.load(tmp_path / "none.json")


def test_a_row_says_how_a_plan_differs_from_the_default():
    row = row_of({"lanes": 4.0, "rows": 2.0}, {"lanes": 5.0, "rows": 2.0, "chunk": 1.0})
    assert row == {
        "lanes": 4.0,
        "rows": 2.0,
        "lanes less the default's": -1.0,
        "chunk less the default's": -1.0,
    }
    assert rows.from_json(rows.to_json(row)) == row


@pytest.mark.parametrize("text", ["[]", '{"a":"b"}', '{"a":true}', '{"a":1e999}', "{"])
def test_a_row_that_is_none_is_refused(text):
    with pytest.raises(ValueError):
        rows.from_json(text)


def test_gains_are_in_powers_of_two_and_end_at_four_times_as_slow():
    assert gain_of(50.0, 100.0) == 1.0
    assert gain_of(1e9, 100.0) == -2.0


def test_rank_accuracy_counts_pairs_of_a_kernel():
    assert rank_accuracy([1, 2, 5, 4], [1, 2, 3, 4], ["a", "a", "b", "b"]) == 0.5
    assert math.isnan(rank_accuracy([1, 2], [1, 1.001], ["a", "a"]))
