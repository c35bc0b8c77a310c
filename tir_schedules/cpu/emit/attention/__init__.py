"""Attention in one pass over blocks of keys, written by hand around one microkernel."""
