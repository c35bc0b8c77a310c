"""What a kernel's stages are known to be together: attention, and what masks it."""
