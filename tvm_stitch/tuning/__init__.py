"""Measure other decisions than the default ones, and keep what was measured."""
