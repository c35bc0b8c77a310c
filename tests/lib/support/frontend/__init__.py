"""Models of one operator, against ONNX Runtime."""
