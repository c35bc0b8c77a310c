"""The CUDA template: one kernel as blocks of threads that share registers, lanes and memory."""
