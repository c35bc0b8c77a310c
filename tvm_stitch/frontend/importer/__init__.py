"""What TVM's ONNX importer has, and converters of ours beside its own."""
