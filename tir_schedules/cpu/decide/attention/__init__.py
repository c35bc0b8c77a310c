"""Tiles of attention in one pass over blocks of keys."""
