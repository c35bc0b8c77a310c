"""Kernels: how they are made, read and run, and what they must show."""
