"""Models of open shapes: compiled for each at first sight, kept in a folder for all processes."""
