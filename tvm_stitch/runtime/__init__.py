"""Running a compiled model: buffers, threads, and the file it is kept in."""
