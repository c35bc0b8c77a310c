"""Kernels of a GPU launched many at a time."""
