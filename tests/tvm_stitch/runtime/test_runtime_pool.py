"""The pool alone: failing tasks, nested launches, forks, and no data race."""

import pytest

from support.native import pool_driver

LACKS_TSAN = pool_driver.lacks_tsan()
needs_tsan = pytest.mark.skipif(bool(LACKS_TSAN), reason=str(LACKS_TSAN))


@pytest.mark.long(every=2)
@pytest.mark.parametrize("scene", [*pool_driver.SCENES, "forks"])
def test_the_pool_bears(scene):
    assert pool_driver.built().run(scene) == ""


@pytest.mark.long(every=3)
@needs_tsan
@pytest.mark.parametrize("scene", pool_driver.SCENES)
def test_the_pool_has_no_data_race(scene):
    assert pool_driver.built(pool_driver.TSAN).run(scene) == ""


@needs_tsan
def test_a_data_race_is_reported():
    assert "data race" in pool_driver.built(pool_driver.TSAN).run("race")
