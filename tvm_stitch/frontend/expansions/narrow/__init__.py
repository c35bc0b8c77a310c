"""Operators that make numbers of narrow types, in the wide ones that stand for them."""
