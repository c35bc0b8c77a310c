"""Broken models, made from right ones."""
