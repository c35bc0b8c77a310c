"""What is true of a kernel on a CPU: lanes, register tiles, windows, padding, guards."""
