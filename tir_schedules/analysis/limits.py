"""Sizes below which a form of a convolution or product is not worth it, on any target."""

LEAST_LANES = 8  # of a register tile: fewer channels fill too little of it
MOST_TAPS = 16  # of a window along an axis, that are emitted one by one
