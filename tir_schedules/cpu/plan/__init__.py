"""The plan of a kernel on a CPU: phases, tiles, loop nests, buffers. Data only."""
