"""Resize in the forms that TVM's importer lacks, or computes otherwise than ONNX."""
