"""Every test decides for one machine, whichever it runs on: its figures decide what is fused."""

from __future__ import annotations

import gc

import pytest

# Asserts of what tests share tell as much as those of a test.
pytest.register_assert_rewrite("support")

from support import illegal_defaults  # noqa: E402
from support.one_machine import settle  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    """Set figures before tests are imported, for some modules ask for a device then."""
    patch = pytest.MonkeyPatch()
    settle(patch)
    config.add_cleanup(patch.undo)
    illegal_defaults.fail()


def pytest_collection_finish() -> None:
    """Collect garbage less often: the compiler makes many objects, and little garbage among them.

    What was made until now stays: thousands of tests, and PyTorch.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
