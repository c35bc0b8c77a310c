"""Matrix products, windows, resizing, quantization and contributed operators."""

from __future__ import annotations

import pytest

from support.frontend.case import check_case
from support.frontend.windows import CASES


@pytest.mark.long(every=6)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_imported_operator_computes_what_onnx_says(case):
    check_case(case)
