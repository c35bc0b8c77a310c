"""What holds of a kernel whatever is decided: how its accesses lie in memory."""
