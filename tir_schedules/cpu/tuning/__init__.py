"""What only the tuner asks of the CPU's template."""
