"""Sorts and the largest of rows: kernels of their own, on all threads."""
