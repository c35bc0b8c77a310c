"""Operators on elements: dtypes, constants and special values that TVM has wrong."""
