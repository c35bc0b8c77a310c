"""Exchange with MetaSchedule's JSON database: there and back, and what is none of ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tvm.s_tir import meta_schedule as ms

from support.tuning.kernels import TARGET, device, product, softmax
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.outcome import Outcome
from tvm_stitch.tuning.records import features_of, trial, workload_record
from tvm_stitch.tuning.tasks import Task, Tasks
from tvm_stitch.tuning.tvm_database import export_tvm, import_tvm

MADE = [Candidates.of(func(), device()) for func in (softmax, product)]
TASKS = Tasks(tuple(Task(each, "k", 1) for each in MADE), {}, TARGET, device())
RECORDS = "database_tuning_record.json"


def outcomes(candidates: Candidates) -> list[Outcome]:
    legal = (d for d in candidates.neighbours(candidates.default))
    better = [d for d in legal if not isinstance(candidates.plan(d), str)][:3]
    decided = [candidates.default, *better]
    return [Outcome(d, 100.0 - 5 * n, 100.0, 0.0, 5) for n, d in enumerate(decided)]


@pytest.fixture
def log(tmp_path):
    key = device_key(device())
    with Log.open(tmp_path / "a.db", create=True) as made:
        for each in MADE:
            rows = ((o, features_of(each, o.decisions)) for o in outcomes(each))
            made.append(
                [workload_record(each)], [key], [trial(each, key, o, row) for o, row in rows]
            )
        yield made


def summary(log: Log) -> set[tuple]:
    return {
        (t.workload, t.device, t.decisions, t.features, round(t.ns / t.default_ns, 6))
        for t in log.trials()
    }


def test_what_is_exported_is_imported_once(log, tmp_path):
    folder = tmp_path / "db"
    assert export_tvm(log, TASKS, folder) == 8
    with Log.open(tmp_path / "b.db", create=True) as other:
        assert import_tvm(other, TASKS, folder) == 8
        assert import_tvm(other, TASKS, folder) == 0
        assert summary(other) == summary(log)


def test_metaschedule_reads_what_is_exported(log, tmp_path):
    export_tvm(log, TASKS, tmp_path / "db")
    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "db"))
    assert len(database) == 8
    best = {MADE[0].decisions(MADE[0].schedule(o.decisions)) for o in outcomes(MADE[0])[-1:]}
    mod = next(r.workload.mod for r in database.get_all_tuning_records() if r.workload.mod)
    found = database.query_schedule(mod, TARGET, "main")
    assert found is not None
    assert MADE[0].decisions(found) in best


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param(
            Tasks((Task(Candidates.of(softmax(7, 9), device()), "k", 1),), {}, TARGET, device()),
            id="of-other-kernels",
        ),
        pytest.param(
            Tasks(TASKS.tasks, {}, TARGET.with_host(TARGET), device(1)), id="of-another-target"
        ),
    ],
)
def test_what_is_of_others_is_left_out(log, tmp_path, tasks):
    export_tvm(log, TASKS, tmp_path / "db")
    with Log.open(tmp_path / "b.db", create=True) as other:
        assert import_tvm(other, tasks, tmp_path / "db") == 0


def changed(folder: Path, change) -> None:
    lines = (folder / RECORDS).read_text().splitlines()
    record = json.loads(lines[0])
    change(record)
    (folder / RECORDS).write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n")


def instructions(record: list) -> list:
    return record[1][0][0]


SPLIT = ["Split", [], [], []]
PRAGMA = ["Annotate", ["b0", '"code"'], ["pragma_import_llvm"], []]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            lambda r: instructions(r).append(PRAGMA), "annotates 'pragma_import_llvm'", id="pragma"
        ),
        pytest.param(
            lambda r: instructions(r).append(SPLIT),
            "instruction 'Split'",
            id="kind",
        ),
        pytest.param(lambda r: r.__setitem__(0, 99), "is no record", id="no-workload"),
        pytest.param(lambda r: r[1].__setitem__(1, ["1"]), "'1' is no time", id="text-for-a-time"),
        pytest.param(lambda r: r[1].__setitem__(1, [-1.0]), "-1.0 is no time", id="negative"),
        pytest.param(lambda r: r[1][0].__setitem__(1, []), "is no record", id="no-decisions"),
        pytest.param(
            lambda r: r[1][0].__setitem__(1, [[n, 10**9] for n, _ in r[1][0][1]]),
            "a record has no decisions",
            id="no-candidate",
        ),
        pytest.param(
            lambda r: instructions(r)[1][1].__setitem__(1, '"{}"'), "no decisions", id="no-variant"
        ),
        pytest.param(lambda r: r.append(1), "is no record", id="long"),
    ],
)
def test_a_record_that_is_none_is_one_line(log, tmp_path, change, told):
    folder = tmp_path / "db"
    export_tvm(log, TASKS, folder)
    changed(folder, change)
    with Log.open(tmp_path / "b.db", create=True) as other:
        with pytest.raises(StitchError) as refused:
            import_tvm(other, TASKS, folder)
        assert other.counts()["trials"] == 0
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_a_folder_without_a_database_is_refused(log, tmp_path):
    with pytest.raises(StitchError, match="No such file"):
        import_tvm(log, TASKS, tmp_path / "none")
    (tmp_path / "database_workload.json").write_text("\x80")
    with pytest.raises(StitchError, match="is no database"):
        import_tvm(log, TASKS, tmp_path)


def test_a_folder_that_is_there_is_not_written_to(log, tmp_path):
    with pytest.raises(StitchError, match="exists already"):
        export_tvm(log, TASKS, tmp_path)
