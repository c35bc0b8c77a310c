"""What the cost model assumes of code that nvcc has yet to make."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumed:
    """Instructions and registers, and how far one thing hides another.

    `expensive` instructions are an exp's, for a special function takes a warp two issues; `term`
    those of a product's term, with its part of the loads that neighbours share; `fragment` those of
    a fragment's product. A loop that is not written out has the loads of `ahead` trips in flight,
    as far as nvcc unrolls. `addresses` are registers that keep no values. Of what others hide
    `beside` is added: of equals the one with less besides is taken.
    """

    expensive: float = 10.0
    term: float = 1.25
    fragment: float = 8.0
    ahead: int = 4
    addresses: int = 24
    beside: float = 0.05


ASSUMED = Assumed()
