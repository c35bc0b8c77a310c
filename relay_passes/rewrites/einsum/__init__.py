"""Einsum as products of matrices: what its subscripts say, and the product that moves least."""
