"""Every subgraph in each option set, rank, extent and dtype: support/kernels/stitch_case.py."""

from __future__ import annotations

import functools

from support.kernels import stitch_case


@functools.cache
def _all_cases() -> dict[str, stitch_case.Case]:
    return {case.id: case for case in stitch_case.full_matrix()}


def cases(_seed: int) -> list[str]:
    return list(_all_cases())


def run(case_id: str) -> dict:
    stitch_case.check(_all_cases()[case_id])
    return {"wrong": []}
