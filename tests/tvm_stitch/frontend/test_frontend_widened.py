"""Recurrent layers, and operators that TVM's importer lacks, in others."""

from __future__ import annotations

import pytest

from support.frontend import recurrent, widened
from support.frontend.case import check_case

# Of recurrent layers written out a third: tests/relay_passes/recurrence has all of them, as loops.
CASES = [*recurrent.CASES[::3], *widened.CASES]


@pytest.mark.long(every=10)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_widened_operator_computes_what_onnx_says(case):
    check_case(case)
