"""Architectures of the wild through each importer, compiled as users do: scripts/wild."""

from __future__ import annotations

from wild.case import answer
from wild.catalogue import ARCHITECTURES
from wild.exporters import EXPORTERS


def cases(_seed: int) -> list[str]:
    return [f"{name}:{importer}" for name in ARCHITECTURES for importer in EXPORTERS]


def run(case: str) -> dict:
    return answer(case)
