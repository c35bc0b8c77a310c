"""Kernels to tune and a device for them."""
