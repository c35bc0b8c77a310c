"""The tables of a log, and whether a database has them."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
    text,
)

from ...errors import StitchError
from .formats import FORMAT, check_format
from .trial import KEY, UID, DeviceKey, PlanChoice, Trial, Workload

_TABLES = MetaData()
_FORMAT = Table("stitch_log", _TABLES, Column("format", Integer, nullable=False))
WORKLOADS = Table(
    "stitch_workloads",
    _TABLES,
    Column("key", String(KEY), primary_key=True),
    Column("structure", String(KEY), nullable=False, index=True),
    Column("text", Text, nullable=False),
)
DEVICES = Table(
    "stitch_devices",
    _TABLES,
    Column("key", String(KEY), primary_key=True),
    Column("text", Text, nullable=False),
)
TRIALS = Table(
    "stitch_trials",
    _TABLES,
    Column("uid", String(UID), primary_key=True),
    Column("workload", ForeignKey(WORKLOADS.c.key), nullable=False),
    Column("device", ForeignKey(DEVICES.c.key), nullable=False),
    Column("decisions", Text, nullable=False),
    Column("features", Text),
    Column("ns", Double),
    Column("default_ns", Double),
    Column("noise", Double),
    Column("runs", Integer, nullable=False),
    Column("error", Text),
    Column("created", Double, nullable=False),
    Index("stitch_trials_of", "workload", "device"),
    Index("stitch_trials_created", "created", "uid"),
)
CHOICES = Table(
    "stitch_choices",
    _TABLES,
    Column("uid", String(UID), primary_key=True),
    Column("graph", String(KEY), nullable=False),
    Column("device", ForeignKey(DEVICES.c.key), nullable=False),
    Column("choice", Text, nullable=False),
    Column("ns", Double, nullable=False),
    Column("default_ns", Double, nullable=False),
    Column("created", Double, nullable=False),
    Index("stitch_choices_of", "graph", "device"),
)
# What others refer to comes before them. A record's fields are its columns.
TABLES = {Workload: WORKLOADS, DeviceKey: DEVICES, Trial: TRIALS, PlanChoice: CHOICES}


def create_tables(connection: Connection) -> None:
    """Make the tables where there are none."""
    if not inspect(connection).has_table(_FORMAT.name):
        _TABLES.create_all(connection)
        connection.execute(_FORMAT.insert().values(format=FORMAT))


def check_tables(given: object, connection: Connection) -> None:
    """Raise StitchError if what is given holds no log of this release."""
    inspector = inspect(connection)
    names = inspector.get_table_names()
    formats = connection.scalars(select(_FORMAT)).all() if _FORMAT.name in names else []
    check_format(given, formats[0] if len(formats) == 1 else None)
    columns = inspector.get_multi_columns(filter_names=list(_TABLES.tables))
    for table in _TABLES.sorted_tables:
        found = {c["name"]: c["type"] for c in columns.get((None, table.name), ())}
        for column in table.columns:
            kind = next(k for k in (String, Integer, Float) if isinstance(column.type, k))
            if not isinstance(found.get(column.name), kind):
                rule = f"table {table.name} has no column {column.name} of {column.type}"
                raise StitchError(given, rule, "use another log")
    if connection.dialect.name == "sqlite":
        _check_nothing_runs(given, connection)


def _check_nothing_runs(given: object, connection: Connection) -> None:
    """A file may come from anyone, and triggers are code that it would run here."""
    query = text("SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index')")
    if names := connection.scalars(query).all():
        raise StitchError(given, f"has a trigger or a view, {names[0]}", "use another log")
