"""What plans take: levels of memory, arithmetic, regions, what passes between kernels."""
