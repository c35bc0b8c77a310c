"""Loops over time in a graph: one step between markers, run as one kernel or unrolled."""
