"""Who reads what of a buffer: sharing, overwriting, streaming, the next tile."""
