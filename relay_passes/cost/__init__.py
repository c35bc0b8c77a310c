"""What sets of ops cost as kernels, from fast to exact."""
