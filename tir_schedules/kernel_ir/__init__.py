"""One kernel as stages: expressions, index arithmetic, reading TensorIR, evaluating in NumPy."""
