"""Fourier transforms, as products with matrices of sines and cosines."""
