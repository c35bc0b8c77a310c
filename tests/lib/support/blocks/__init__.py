"""Random networks of real blocks, with their answers."""
