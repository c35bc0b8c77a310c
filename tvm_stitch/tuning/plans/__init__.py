"""Fusion plans tuned: parts of a model's graph, grouped as planned and otherwise, measured."""
