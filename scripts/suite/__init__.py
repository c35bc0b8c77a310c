"""What gpu_suite.py asks of a GPU: its steps, how each is run, and how their figures are told."""
