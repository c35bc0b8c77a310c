"""An ONNX model as bytes, tensors and nodes: read, checked, folded."""
