"""What kernels that no template takes need, to keep to their buffers."""
