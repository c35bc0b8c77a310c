"""Vector math: error bounds, special values, vector code, half types, NaN-keeping max and min."""

import re

import ml_dtypes
import numpy as np
import pytest
import sweep_vector_math as sweep
import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import IRModule
from tvm.script import tirx as T
from tvm.target.codegen import llvm_get_system_cpu, target_has_features

from tir_schedules.vector_math import lower, nan_max, nan_min

INF, NAN, TINY = np.inf, np.nan, 1e-45
SPECIAL = [0.0, -0.0, INF, -INF, NAN]
TARGETS = ["x86-64-v3", llvm_get_system_cpu()]
UNARY = sorted(sweep.REFERENCES)
FLOATS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}


def compiled(function, arguments=1, **options):
    return sweep.evaluator(sweep.build(function, arguments, **options))


def run(kernel, *arrays):
    target = tvm.target.Target({"kind": "llvm", "mcpu": llvm_get_system_cpu()})
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    tvm.compile(IRModule({"main": kernel}), target=target).jit()["main"](*tensors)
    return tensors[-1].numpy()


def body(executable):
    """Return the assembly of the kernel without LLVM's own half-precision conversions."""
    assembly = executable.mod.inspect_source("asm")
    return assembly[assembly.index("__tvm_ffi_kernel:") :].partition(".Lfunc_end")[0]


def long_power(x, y):
    with np.errstate(all="ignore"):
        return np.power(x.astype(np.longdouble), y.astype(np.longdouble)).astype(np.float32)


def same(got, expected):
    """Equal in every bit but NaN's: -0 is not 0."""
    np.testing.assert_array_equal(got, expected)
    kept = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[kept], np.signbit(expected)[kept])


@pytest.mark.parametrize("mcpu", TARGETS)
@pytest.mark.parametrize("name", UNARY)
def test_error_is_at_most_4_ulp_on_every_exponent(name, mcpu):
    evaluate = compiled(getattr(tirx, name), mcpu=mcpu)
    ulp, argument = sweep.worst(name, evaluate, sweep.samples(mantissas=700))
    assert ulp <= sweep.LIMIT_ULP, f"{name}({argument!r}) is {ulp} ulp off"


@pytest.mark.parametrize(
    ("name", "arguments", "results"),
    [
        ("exp", [*SPECIAL, 88.9, -104.0, -103.9], [1, 1, INF, 0, NAN, INF, 0, TINY]),
        ("exp2", [*SPECIAL, 128, -150, -149], [1, 1, INF, 0, NAN, INF, 0, TINY]),
        ("log", [*SPECIAL, 1, -1, -TINY], [-INF, -INF, INF, NAN, NAN, 0, NAN, NAN]),
        ("log2", [*SPECIAL, 1, -1, 8], [-INF, -INF, INF, NAN, NAN, 0, NAN, 3]),
        ("log10", [*SPECIAL, 1, -1, 1000], [-INF, -INF, INF, NAN, NAN, 0, NAN, 3]),
        ("log1p", [*SPECIAL, -1, -1.5, TINY], [0.0, -0.0, INF, NAN, NAN, -INF, NAN, TINY]),
        ("tanh", [*SPECIAL, 10, -10, TINY], [0.0, -0.0, 1, -1, NAN, 1, -1, TINY]),
        ("sigmoid", [*SPECIAL, 18, -104, -103.9], [0.5, 0.5, 1, 0, NAN, 1, 0, TINY]),
        ("erf", [*SPECIAL, 4, -4, TINY], [0.0, -0.0, 1, -1, NAN, 1, -1, TINY]),
        ("rsqrt", [*SPECIAL, 4, -1, 1], [INF, -INF, 0, NAN, NAN, 0.5, NAN, 1]),
    ],
)
def test_special_values_are_exact(name, arguments, results):
    got = compiled(getattr(tirx, name))(np.array(arguments, np.float32))
    same(got, np.array(results, np.float32))


def test_pow_follows_c99_on_all_pairs_of_special_values():
    values = [*SPECIAL, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -2.5, TINY, -TINY, 1e30, -1e30]
    values += [3.4e38, -3.4e38, 2.0**24, 2.0**24 - 1, 1 - 2.0**-24, 1 + 2.0**-23]
    x, y = (a.ravel() for a in np.meshgrid(*[np.array(values, np.float32)] * 2))
    got, expected = compiled(tirx.pow, 2)(x, y), long_power(x, y)
    assert sweep.ulp_distance(got, expected).max() <= 1
    limits = ~np.isfinite(expected) | (expected == 0) | (y == 0) | (np.abs(x) == 1)
    same(got[limits], expected[limits])


def test_pow_error_is_at_most_4_ulp_over_the_whole_range_of_results():
    rng = np.random.default_rng(0)
    bases = sweep.samples(mantissas=200)
    near_one = (1 + rng.uniform(-1e-3, 1e-3, 100_000)).astype(np.float32)
    x = np.abs(np.concatenate([bases, near_one]))
    with np.errstate(all="ignore"):
        y = (rng.uniform(-151, 129, x.size) / np.log2(x)).astype(np.float32)
    assert sweep.ulp_distance(compiled(tirx.pow, 2)(x, y), long_power(x, y)).max() <= 4


@pytest.mark.parametrize("y", [0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 5, -3, 10, 1.5, 1 / 3, -1.25])
def test_pow_with_a_constant_exponent_is_within_4_ulp_and_follows_c99(y):
    x = sweep.samples(mantissas=200)
    got = compiled(lambda v: tirx.pow(v, tirx.const(y, "float32")))(x)
    expected = long_power(x, np.full_like(x, y))
    assert sweep.ulp_distance(got, expected).max() <= 4
    limits = ~np.isfinite(expected) | (x == 0) | np.isinf(x)
    same(got[limits], expected[limits])


@pytest.mark.parametrize("y", [2, 3, 4, -1, -2, 0.5, -0.5])
def test_pow_with_a_small_constant_exponent_needs_no_polynomial(y):
    x = tirx.Var("x", "float32")
    expr = lower(tirx.pow(x, tirx.const(y, "float32")))
    assert "float64" not in str(expr)


@pytest.mark.parametrize("mcpu", TARGETS)
@pytest.mark.parametrize("name", [*UNARY, "pow"])
def test_code_is_vector_code_without_calls(name, mcpu):
    executable = sweep.build(getattr(tirx, name), 2 if name == "pow" else 1, mcpu=mcpu)
    assembly = body(executable)
    target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu})
    assert ("%zmm" if target_has_features("avx512f", target) else "%ymm") in assembly
    assert not re.search(rf"call\w*\s+{name}\w*", assembly)
    assert not re.search(r"\tv(add|sub|mul|div|sqrt|max|min|fn?m\w+)(ss|sd)\b", assembly)
    assert "vpextr" not in assembly and "vextractps" not in assembly


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "tanh", "log"])
def test_half_types_compute_in_float32(name, dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(FLOATS[dtype])
    got = compiled(getattr(tirx, name), dtype=dtype)(x)
    wide = compiled(getattr(tirx, name))(x.astype(np.float32))
    with np.errstate(over="ignore"):
        expected = wide.astype(FLOATS[dtype])
    same(got.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("name", sorted({*UNARY, "sqrt"} - {"tanh"}))
def test_float64_calls_stay(name):
    call = getattr(tirx, name)(tirx.Var("x", "float64"))
    assert tvm_ffi.structural_equal(lower(call), call)


@pytest.mark.long(every=3)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("keep", "reference"), [(nan_max, np.maximum), (nan_min, np.minimum)])
def test_nan_max_and_nan_min_keep_nan_from_either_side(keep, reference, dtype):
    values = np.array([0.0, 1, -2, INF, -INF, NAN, 3.5], FLOATS[dtype])
    a, b = (m.ravel() for m in np.meshgrid(values, values))
    got = compiled(keep, 2, dtype=dtype)(a, b)
    np.testing.assert_array_equal(got.astype(np.float64), reference(a, b).astype(np.float64))
    for constant in (0.0, INF, NAN):
        for swap in (False, True):
            bound = tirx.const(constant, dtype)
            got = compiled(lambda x, c=bound, s=swap: keep(c, x) if s else keep(x, c), dtype=dtype)(
                values
            )
            expected = reference(values, FLOATS[dtype](constant))
            np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


def test_nan_max_of_integers_is_plain_max():
    a, b = tirx.Var("a", "int32"), tirx.Var("b", "int32")
    assert tvm_ffi.structural_equal(nan_max(a, b), tirx.Max(a, b))
    assert tvm_ffi.structural_equal(nan_min(a, b), tirx.Min(a, b))


def test_relu_that_keeps_nan_is_one_vector_instruction():
    assembly = body(sweep.build(lambda x: nan_max(x, tirx.const(0.0, "float32"))))
    assert "vmaxps" in assembly
    assert "vcmp" not in assembly and "vblend" not in assembly


def lets_in(node):
    found = []
    tvm_ffi.structural_walk(node, (tirx.Let, lambda let: found.append(let) and None))
    return found


def test_a_chain_of_ten_functions_compiles_and_runs():
    def chain(x):
        for function in [tirx.tanh, tirx.sigmoid, tirx.erf, tirx.exp, tirx.log1p] * 2:
            x = function(x)
        return x

    expected = x = np.linspace(-5, 5, 1000, dtype=np.float32)
    for name in ["tanh", "sigmoid", "erf", "exp", "log1p"] * 2:
        expected = sweep.REFERENCES[name](expected.astype(np.float64))
    np.testing.assert_allclose(compiled(chain)(x), expected, rtol=2e-6)


def test_lower_leaves_no_let_in_a_scheduled_kernel_with_a_scalar_tail():
    @T.prim_func(s_tir=True)
    def kernel(a: T.Buffer((5, 37), "float32"), b: T.Buffer((5, 37), "float32")):
        for i, j in T.grid(5, 37):
            with T.sblock("gate"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = T.tanh(T.exp(a[vi, vj])) * T.sigmoid(a[vi, vj])

    sch = s_tir.Schedule(kernel)
    i, j = sch.get_loops(sch.get_sblock("gate"))
    sch.vectorize(sch.split(j, [None, 16])[1])
    sch.parallel(i)
    lowered = lower(sch.mod["main"])
    assert not lets_in(lowered.body)
    x = np.random.default_rng(0).standard_normal((5, 37)).astype(np.float32)
    got = run(lowered, x, np.zeros_like(x))
    np.testing.assert_allclose(got, np.tanh(np.exp(x)) / (1 + np.exp(-x)), rtol=1e-6)


def test_expressions_lowered_one_by_one_nest():
    x = np.linspace(-5, 5, 1000, dtype=np.float32)
    got = compiled(
        lambda v: lower(tirx.tanh(lower(tirx.exp(nan_max(v, tirx.const(-1.0, "float32"))))))
    )(x)
    np.testing.assert_allclose(got, np.tanh(np.exp(np.maximum(x, -1))), rtol=1e-6)


def test_a_value_under_if_then_else_keeps_its_guard():
    @T.prim_func(s_tir=True)
    def kernel(a: T.Buffer((4,), "float32"), b: T.Buffer((6,), "float32")):
        for i in T.serial(6):
            b[i] = T.if_then_else(i < 4, T.exp(T.tanh(a[i])), T.float32(7))

    lowered = lower(kernel)
    assert "T.if_then_else(i < 4, a[i], T.float32(0.0))" in str(lowered)
    assert not lets_in(lowered.body)
    x = np.array([-1, 0, 1, 2], np.float32)
    got = run(lowered, x, np.zeros(6, np.float32))
    np.testing.assert_allclose(got, [*np.exp(np.tanh(x)), 7, 7], rtol=1e-6)


def test_lowering_twice_changes_nothing():
    x = tirx.Var("x", "float32")
    once = lower(tirx.erf(tirx.exp(x)))
    assert tvm_ffi.structural_equal(lower(once), once)
