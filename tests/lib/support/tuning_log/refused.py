"""Why a log is refused, in one line."""

from __future__ import annotations

import pytest

from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.log import Log


def refusal(where: object, create: bool = False) -> str:
    """Return why a log is refused when it is opened, or when all of it is read."""
    with pytest.raises(StitchError) as caught, Log.open(where, create) as log:
        list(log.records())
    assert str(caught.value).isprintable()
    return str(caught.value)
