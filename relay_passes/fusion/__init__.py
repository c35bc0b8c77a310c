"""From a graph to a fusion plan, and from the plan to functions."""
