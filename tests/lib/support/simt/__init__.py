"""CUDA C++ on a CPU: the kernels that TVM generates, with threads as fibers."""
