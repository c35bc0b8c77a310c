"""ONNX's Attention, in products and a softmax."""
