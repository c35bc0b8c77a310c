"""Random ONNX graphs with their NumPy answers."""
