"""The pool under ThreadSanitizer, in orders drawn from seeds: support/native/pool_main.cc."""

from __future__ import annotations

from support.native import pool_driver

from . import sample

RUNS = 50  # of each scene


def cases(seed: int) -> list[str]:
    drawn = (int(number) % 1000 for number in sample.draw(RUNS, seed))
    return [f"{scene}:{number}" for number in dict.fromkeys(drawn) for scene in pool_driver.SCENES]


def run(case: str) -> dict:
    """Raises: RuntimeError where the compiler has no ThreadSanitizer."""
    if lacking := pool_driver.lacks_tsan():
        raise RuntimeError(lacking)
    scene, _, seed = case.partition(":")
    found = pool_driver.built(pool_driver.TSAN).run(scene, int(seed))
    return {"wrong": found.splitlines()[:40]}
