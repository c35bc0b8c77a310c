"""Measure a CPU or a GPU for the cost model, by kernels that each take long over one thing."""
