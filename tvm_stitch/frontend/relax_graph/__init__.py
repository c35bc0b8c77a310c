"""A Relax function: its values, sizes and indices bounded, scales and weights folded."""
