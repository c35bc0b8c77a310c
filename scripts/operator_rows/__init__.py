"""Operators at the sizes of real models that bench_memory, bench_gemm and bench_conv lack."""
