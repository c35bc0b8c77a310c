"""What a plan of a CUDA kernel is: decisions as data, and the objects that they name."""
