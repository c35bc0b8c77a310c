"""What nvcc makes of default kernels: nothing spilled, wide loads, each element loaded once."""

from __future__ import annotations

import pytest
import zoo

from support.cuda.checked import planned
from support.cuda.kernels import fused
from support.cuda.machine_code import machine_code, toolkit
from tir_schedules.cuda.cost.occupancy import registers_of

pytestmark = pytest.mark.skipif(
    toolkit() is None, reason="issue 26: nvcc's wheels are not installed; pip install '.[cuda]'"
)
SLACK = 32  # registers by which the estimate may be under: of arithmetic, which it does not count


@pytest.mark.long(every=2)
@pytest.mark.parametrize(
    ("name", "dtype", "arch", "loads"),
    [
        ("softmax", "float32", "sm_90", {"x": 1}),
        ("layernorm", "float32", "sm_80", {"x": 1, "scale": 1, "bias": 1}),
        ("rmsnorm", "float16", "sm_90", {"x": 1, "scale": 1}),
        ("gru_cell", "bfloat16", "sm_86", {}),
    ],
)
def test_a_kernel_in_registers_with_wide_loads(name, dtype, arch, loads):
    shape = zoo.bench_shapes(name)["memory"]
    (func,) = fused(zoo.subgraph(name, shape, dtype))
    gpu = planned(func)
    (phase,), (kernel,) = gpu.plan.phases, gpu.made.kernels
    made = machine_code(kernel.source, arch)
    assert made.spilled == 0
    assert made.registers <= registers_of(phase) + SLACK
    assert made.count("LDG", "128") == made.count("LDG")
    assert made.count("STG", "128") == made.count("STG")
    points = max(_points(nest) for nest in phase.nests)
    if loads:
        lanes = 16 // (2 if dtype == "float16" else 4)
        assert made.count("LDG") == len(loads) * points // lanes
    assert made.count("LDL") == made.count("STL") == 0


def _points(nest) -> int:
    found = 1
    for spread in nest.walked():
        found *= spread.trips * spread.width
    return found
