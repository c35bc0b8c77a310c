"""Default decisions that legality refuses are a fault: users get a slow kernel and a warning."""

from __future__ import annotations

import logging


def fail() -> None:
    """Raise AssertionError from here on where default decisions are illegal."""
    logging.getLogger("tvm_stitch.schedule").addHandler(_Raise(logging.WARNING))


class _Raise(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage())
