"""Operators of quantised models: products of integers, and scales of rows, columns or blocks."""
