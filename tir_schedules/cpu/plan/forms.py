"""Which structures a plan may be given: the usual form leaves them all to the cost model."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

JUDGED, APART, TOGETHER = "judged", "apart", "together"
STREAMING, PHASES = "streaming", "phases"


@dataclass(frozen=True)
class Form:
    """What is decided for, by its structure.

    `cut` nodes into phases as judged, each apart, or all together where that can be; `attention`
    as judged, in one pass over blocks of keys, or in phases. What is False is done without:
    products that do not meet in a nest have a register tile each.
    """

    cut: str = JUDGED
    attention: str = JUDGED
    register_tiles: bool = True
    windows: bool = True
    transposed: bool = True
    epilogues: bool = True
    flattened: bool = True
    serial_axis: bool = True
    partial_sums: bool = True
    products_meet: bool = True


USUAL = Form()


def forms() -> list[Form]:
    """Return the usual form, then each that differs from it in one thing."""
    changes: list[dict[str, object]] = [{"cut": APART}, {"cut": TOGETHER}]
    changes += [{"attention": STREAMING}, {"attention": PHASES}]
    changes += [{f.name: False} for f in fields(Form) if f.type == "bool"]
    return [USUAL, *(replace(USUAL, **change) for change in changes)]
