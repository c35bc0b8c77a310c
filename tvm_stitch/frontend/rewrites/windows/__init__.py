"""Operators of windows over images that TVM's importer lacks."""
