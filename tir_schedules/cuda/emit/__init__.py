"""TensorIR of a plan: blocks, threads, loops, barriers. Nothing is decided here."""
