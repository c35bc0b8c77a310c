"""The graph of calls that fusion works on, and a plan of it."""
