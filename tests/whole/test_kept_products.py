"""A product that a kernel keeps is rounded before anything reads it, whatever the loops around are.

LLVM would make one multiply-add of it and a sum that reads it, in loops where it forwards the one
to the other: with a tile an image, some elements had other bits than with one tile for all.
"""

import pytest

from support.blocks.case import wrong
from support.blocks.reducer import whole

# Seeds of check_all.py's section blocks, each with a convolution of one tap and channel, which is
# no sum. Its way runs them on 1 and 8 threads.
SEEDS = [3144514762, 1407557922]


@pytest.mark.parametrize("seed", SEEDS)
def test_networks_have_the_same_bits_on_any_number_of_threads(seed):
    case = whole(seed)
    assert wrong(case.graph(), case.way) == []
