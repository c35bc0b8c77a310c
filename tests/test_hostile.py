"""Broken models: whatever a file holds, it compiles or is refused in one line."""

from __future__ import annotations

import pytest
from hostile_case import outcome


@pytest.mark.parametrize("number", range(16))
def test_a_damaged_model_compiles_or_is_refused_in_one_line(number):
    assert outcome(number)
