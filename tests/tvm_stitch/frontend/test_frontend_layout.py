"""Layout and indexing operators against ONNX Runtime."""

from __future__ import annotations

import pytest

from support.frontend.case import check_case
from support.frontend.layout import CASES


@pytest.mark.long(every=5)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_imported_operator_computes_what_onnx_says(case):
    check_case(case)
