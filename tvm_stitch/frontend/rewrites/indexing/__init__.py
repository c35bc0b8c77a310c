"""Operators that move elements to places of their own."""
