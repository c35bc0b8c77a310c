"""Random ONNX graphs from the list of operators: shapes, types, attributes, all of a seed."""
