"""Operators as tensor expressions, where TVM has none or one that is wrong."""
