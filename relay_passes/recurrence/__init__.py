"""Loops over time in a graph: written as one step between markers, run as one kernel or unrolled."""
