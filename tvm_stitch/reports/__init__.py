"""What a compiled model is told by: its kernels, its memory, whether stitching pays."""
