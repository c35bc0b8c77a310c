"""Random decisions in place of the cost model's, and random devices."""
