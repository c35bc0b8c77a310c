"""Operators in float64, compiled or by NumPy: what a kernel should give."""
