"""A record refuses what it must not hold, and says which field."""

from __future__ import annotations

import math

import pytest

from support.tuning_log.records import choice, device, failed, key, trial, workload
from tvm_stitch.tuning.log import DeviceKey, PlanChoice, Trial, Workload

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("record", "field", "value", "told"),
    [
        pytest.param(trial("a"), "uid", "a" * 31, "32 hexadecimal digits", id="short-uid"),
        pytest.param(trial("a"), "uid", "A" * 32, "32 hexadecimal digits", id="upper-case-uid"),
        pytest.param(trial("a"), "workload", key("w") + "\n", "64 hexadecimal", id="line-end"),
        pytest.param(trial("a"), "device", 5, "64 hexadecimal", id="device-number"),
        pytest.param(trial("a"), "decisions", "[]", "not a JSON object", id="list"),
        pytest.param(trial("a"), "decisions", '{"a": 1}', "not canonical", id="spaces"),
        pytest.param(trial("a"), "decisions", '{"b":1,"a":2}', "not canonical", id="unsorted"),
        pytest.param(trial("a"), "decisions", '{"a":1,"a":1}', "not canonical", id="twice"),
        pytest.param(trial("a"), "decisions", '{"a":NaN}', "no JSON", id="json-nan"),
        pytest.param(trial("a"), "decisions", '{"a":1e999}', "no JSON", id="json-infinity"),
        pytest.param(trial("a"), "decisions", f'{{"a":{"9" * 9999}}}', "no JSON", id="digits"),
        pytest.param(trial("a"), "decisions", DEEP, "no JSON", id="deep"),
        pytest.param(trial("a"), "ns", None, "exactly one of ns and error", id="neither"),
        pytest.param(trial("a"), "error", "why", "exactly one of ns and error", id="both"),
        pytest.param(trial("a"), "ns", 0.0, "ns is 0", id="no-time"),
        pytest.param(trial("a"), "ns", -1.0, "at least 0", id="negative"),
        pytest.param(trial("a"), "ns", math.nan, "finite", id="nan"),
        pytest.param(trial("a"), "ns", math.inf, "finite", id="infinite"),
        pytest.param(trial("a"), "ns", "5", "ns is '5'", id="text-for-a-time"),
        pytest.param(trial("a"), "default_ns", None, "one of ns and default_ns", id="no-default"),
        pytest.param(trial("a"), "default_ns", 0.0, "default_ns is 0", id="no-default-time"),
        pytest.param(trial("a"), "features", "[]", "not a JSON object", id="features"),
        pytest.param(trial("a"), "noise", -0.1, "noise is -0.1", id="noise"),
        pytest.param(trial("a"), "runs", -1, "not a count", id="negative-runs"),
        pytest.param(trial("a"), "runs", True, "not a count", id="true-runs"),
        pytest.param(trial("a"), "runs", 1 << 31, "not a count", id="runs-of-64-bits"),
        pytest.param(trial("a"), "created", math.nan, "created is nan", id="created"),
        pytest.param(failed("a"), "error", "two\nlines", "one printable line", id="lines"),
        pytest.param(failed("a"), "error", "\x1b[2J", "one printable line", id="escape"),
        pytest.param(failed("a"), "error", "", "one printable line", id="empty"),
        pytest.param(failed("a"), "error", "e" * 1001, "more than 1000", id="long-error"),
        pytest.param(workload(), "key", "w", "64 hexadecimal", id="key"),
        pytest.param(workload(), "structure", None, "64 hexadecimal", id="structure"),
        pytest.param(workload(), "text", b"w", "not a text", id="bytes"),
        pytest.param(workload(), "text", "a\0b", "NUL", id="nul"),
        pytest.param(workload(), "text", "\udc80", "surrogate", id="surrogate"),
        pytest.param(workload(), "text", "w" * (1 << 21), "2097152 characters", id="long-text"),
        pytest.param(device(), "key", "d", "64 hexadecimal", id="device-key"),
        pytest.param(device(), "text", "avx512", "no JSON", id="device-text"),
        pytest.param(device(), "text", "5", "not a JSON object", id="device-of-a-number"),
        pytest.param(choice("a"), "uid", "", "32 hexadecimal", id="choice-uid"),
        pytest.param(choice("a"), "graph", "g", "64 hexadecimal", id="graph"),
        pytest.param(choice("a"), "device", "d", "64 hexadecimal", id="choice-device"),
        pytest.param(choice("a"), "choice", "()", "no JSON", id="choice"),
        pytest.param(choice("a"), "ns", None, "finite", id="choice-time"),
        pytest.param(choice("a"), "default_ns", 0.0, "default_ns is 0", id="choice-default"),
        pytest.param(choice("a"), "created", -1.0, "at least 0", id="choice-age"),
    ],
)
def test_a_field_is_refused(
    record: Workload | DeviceKey | Trial | PlanChoice, field: str, value: object, told: str
):
    with pytest.raises(ValueError, match=told):
        type(record)(**{**vars(record), field: value})
