"""Every test decides for one machine, whichever it runs on: its figures decide what is fused."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

# Asserts of what tests share tell as much as those of a test.
pytest.register_assert_rewrite("support")

from support import illegal_defaults  # noqa: E402
from support.one_machine import settle  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run only what CI leaves out")


def pytest_configure(config: pytest.Config) -> None:
    """Set figures before tests are imported, for some modules ask for a device then."""
    patch = pytest.MonkeyPatch()
    settle(patch)
    config.add_cleanup(patch.undo)
    illegal_defaults.fail()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long for CI, or what is not: scripts/check_all.py runs it, by --long."""
    cases: Counter[str] = Counter()
    sides: tuple[list[pytest.Item], list[pytest.Item]] = [], []
    for item in items:
        number = cases[test := item.nodeid.partition("[")[0]]
        cases[test] += 1
        mark = item.get_closest_marker("long")
        every = mark.kwargs.get("every") if mark else 1
        sides[every is None or number % every > 0].append(item)
    chosen = config.getoption("--long")
    items[:] = sides[chosen]
    config.hook.pytest_deselected(items=sides[not chosen])


def pytest_collection_finish() -> None:
    """Collect garbage less often: the compiler makes many objects, and little garbage among them.

    What was made until now stays: thousands of tests, and PyTorch.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
