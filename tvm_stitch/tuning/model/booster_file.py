"""A model as XGBoost's own JSON, checked before XGBoost reads it: it may come from anyone.

XGBoost takes a tree's links as they are, and reads beyond its arrays where they lead out of them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xgboost

from ...errors import StitchError
from ...runtime.artifact import atomically

_MOST_BYTES = 64 << 20  # a model of 1,000 trees has 5 MiB
_REMEDY = "give a model that tvm-stitch wrote, or none"
_LEAF = -1
_LISTS = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")


@dataclass(frozen=True)
class Facts:
    """What a model says of itself: its error on unseen kernels, and of which trials it is."""

    error: float
    of: str

    def __post_init__(self) -> None:
        if not self.error >= 0.0:
            raise ValueError(f"its error is {self.error}")
        if not isinstance(self.of, str):
            raise ValueError("what it is of is no text")


def save(booster: xgboost.Booster, facts: Facts, path: Path) -> None:
    """Write a model; a file already there is replaced whole or not at all."""
    booster.set_attr(error=repr(facts.error), of=facts.of)
    with atomically(path) as file:
        file.write(bytes(booster.save_raw("json")))


def load(path: Path) -> tuple[xgboost.Booster, Facts]:
    """Read what `save` wrote. Raises: StitchError if the file is no such model."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise StitchError(path, error.strerror or str(error), _REMEDY) from None
    try:
        facts = check(raw)
        booster = xgboost.Booster()
        booster.load_model(bytearray(raw))
    except (ValueError, RecursionError, xgboost.core.XGBoostError) as error:
        rule = f"is no model of gains ({str(error).splitlines()[0] if str(error) else 'empty'})"
        raise StitchError(path, rule, _REMEDY) from None
    return booster, facts


def check(raw: bytes) -> Facts:
    """Return what a model says of itself.

    Raises: ValueError if these bytes are no JSON of trees whose links stay inside them.
    """
    if len(raw) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES} bytes")
    try:
        learner = json.loads(raw)["learner"]
        names, booster = learner["feature_names"], learner["gradient_booster"]
        trees, name = booster["model"]["trees"], booster["name"]
        sizes = [int(learner["learner_model_param"][k]) for k in ("num_feature", "num_target")]
        counted = int(booster["model"]["gbtree_model_param"]["num_trees"])
        said = learner["attributes"]
        facts = Facts(float(said.get("error", math.inf)), said.get("of", ""))
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it has no {error}") from None
    if name != "gbtree" or sizes != [len(names), 1] or counted != len(trees):
        raise ValueError("it is not of one sum of trees over named features")
    if not all(type(each) is str for each in names):
        raise ValueError("a feature has no name")
    for number, tree in enumerate(trees):
        _check_tree(tree, number, len(names))
    return facts


def _check_tree(tree: Any, number: int, features: int) -> None:
    try:
        lists = [tree[key] for key in _LISTS]
        count = int(tree["tree_param"]["num_nodes"])
        categories = tree["categories"]
    except (LookupError, TypeError) as error:
        raise ValueError(f"tree {number} has no {error}") from None
    if categories or {len(each) for each in lists} != {count} or count < 1:
        raise ValueError(f"tree {number} has lists of several lengths, or categories")
    for node, (left, right, feature, *_) in enumerate(zip(*lists, strict=True)):
        if any(type(each) is not int for each in (left, right, feature)):
            raise ValueError(f"node {node} of tree {number} has no numbers")
        # Children come behind their parents, so no walk goes round.
        inside = all(node < child < count for child in (left, right))
        if not (inside or left == right == _LEAF) or not 0 <= feature < features:
            raise ValueError(f"node {node} of tree {number} leads out of it")
