"""A log as JSON lines: all of it comes back, and a damaged file adds nothing."""

from __future__ import annotations

import json

import pytest

from support.tuning_log.records import choice, device, failed, trial, workload
from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.log import Log, export_json, import_json

RECORDS = [
    workload("w\u2028\U0001f9f5"),
    device(),
    trial("a", of="w\u2028\U0001f9f5", ns=0.1 + 0.2),
    failed("b", of="w\u2028\U0001f9f5", created=2.0),
    choice("c"),
]


@pytest.fixture
def file(other, tmp_path):
    """Return an export of `RECORDS`."""
    other.add(RECORDS)
    export_json(other, tmp_path / "log.jsonl")
    return tmp_path / "log.jsonl"


def test_what_is_exported_comes_back(log, file):
    assert import_json(log, file) == 2
    assert list(log.records()) == RECORDS
    assert import_json(log, file) == 0
    assert list(log.records()) == RECORDS


def test_equal_logs_have_equal_exports(log, file, tmp_path):
    import_json(log, file)
    export_json(log, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == file.read_bytes()


def test_an_export_that_fails_leaves_the_file_that_was_there(other, file, monkeypatch):
    def broken():
        yield RECORDS[0]
        raise KeyboardInterrupt

    before = file.read_bytes(), sorted(file.parent.iterdir())
    monkeypatch.setattr(other, "records", broken)
    with pytest.raises(KeyboardInterrupt):
        export_json(other, file)
    assert (file.read_bytes(), sorted(file.parent.iterdir())) == before


def changed(number: int, **values: object):
    """Return what changes fields of the record in a line, counted from 1."""

    def change(lines: list[bytes]) -> list[bytes]:
        data = json.loads(lines[number - 1])
        for record in data.values():
            record.update(values)
        lines[number - 1] = json.dumps(data).encode() + b"\n"
        return lines

    return change


def replaced(number: int, line: bytes):
    return lambda lines: [*lines[: number - 1], line, *lines[number:]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda lines: [], "line 1: the line does not end", id="empty"),
        pytest.param(lambda lines: lines[1:], "holds no tuning log", id="no-format"),
        pytest.param(replaced(1, b'{"tvm_stitch_log":0}\n'), "format 0, older", id="older"),
        pytest.param(replaced(1, b'{"tvm_stitch_log":2}\n'), "format 2, newer", id="newer"),
        pytest.param(replaced(1, b'{"tvm_stitch_log":"1"}\n'), "no tuning log", id="no-number"),
        pytest.param(replaced(4, b"\n"), "line 4: Expecting value", id="blank"),
        pytest.param(replaced(4, b"\x80\n"), "line 4: 'utf-8' codec", id="no-utf-8"),
        pytest.param(replaced(4, b"[" * 99999 + b"\n"), "line 4: ", id="deep"),
        pytest.param(replaced(4, b"9" * 9999 + b"\n"), "line 4: Exceeds the limit", id="digits"),
        pytest.param(replaced(4, b" " * (8 << 20) + b"\n"), "line 4: the line", id="long"),
        pytest.param(replaced(4, b'{"trial":[]}\n'), "line 4: a trial has the", id="list"),
        pytest.param(replaced(4, b'{"pickle":{}}\n'), "line 4: 'pickle' is none", id="kind"),
        pytest.param(replaced(4, b"[]\n"), "line 4: not an object of one of", id="no-object"),
        pytest.param(lambda lines: [*lines[:-1], lines[-1][:-9]], "line 6: the line", id="cut"),
        pytest.param(lambda lines: [*lines[:1], *lines[2:]], "line 3: its workload", id="orphan"),
        pytest.param(lambda lines: [*lines[:2], *lines[3:]], "line 3: its device", id="no-device"),
        pytest.param(changed(4, ns="1"), "line 4: ns is '1'", id="text-for-a-time"),
        pytest.param(changed(4, ns=float("nan")), "line 4: ns is nan", id="nan"),
        pytest.param(changed(4, ns=-1.0), "line 4: ns is -1.0", id="negative"),
        pytest.param(changed(4, command="rm"), "line 4: a trial has the fields", id="field"),
        pytest.param(changed(2, text="w" * (1 << 21)), "line 2: text has", id="long-text"),
    ],
)
def test_a_damaged_file_is_refused_and_adds_nothing(tmp_path, file, change, told):
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b"".join(change(file.read_bytes().splitlines(keepends=True))))
    with Log.open(tmp_path / "log.db", create=True) as log:
        with pytest.raises(StitchError) as caught:
            import_json(log, bad)
        assert log.counts()["workloads"] == 0
    assert str(caught.value).startswith(str(bad))
    assert str(caught.value).isprintable()
    assert told in str(caught.value)


@pytest.mark.parametrize("name", ["none.jsonl", "."])
def test_no_file_is_told_in_one_line(other, tmp_path, name):
    with pytest.raises(StitchError, match="give a file that an export wrote"):
        import_json(other, tmp_path / name)
