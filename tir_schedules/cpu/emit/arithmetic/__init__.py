"""Expressions of a stage as TensorIR, and the arithmetic of reductions."""
