"""Every test decides for one machine, whichever it runs on: its figures decide what is fused."""

from __future__ import annotations

import logging

import pytest

# Asserts of what tests share tell as much as those of a test.
pytest.register_assert_rewrite("support")

from support.one_machine import settle  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    """Set figures before tests are imported, for some modules ask for a device then."""
    patch = pytest.MonkeyPatch()
    settle(patch)
    config.add_cleanup(patch.undo)


class _Raise(logging.Handler):
    """Fails where default decisions are illegal: users get a slow kernel and a warning."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage())


logging.getLogger("tvm_stitch.schedule").addHandler(_Raise(logging.WARNING))
