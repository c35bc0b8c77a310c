"""Facts about kernels: their stages, index maps and iteration atoms. Nothing here decides."""
