"""Operators that draw random numbers: the same in each run, as nothing has a state."""
