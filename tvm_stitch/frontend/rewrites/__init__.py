"""Rewrites of the ONNX graph before TVM's importer sees it, one a file, in the order they run."""

from __future__ import annotations

REWRITES: tuple = ()
REWRITTEN_OPS: frozenset[str] = frozenset()
