"""What only the tuner asks of the GPU's template."""
