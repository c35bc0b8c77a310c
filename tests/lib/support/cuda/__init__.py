"""CUDA kernels of models, without a GPU: made, and run as C++ on this CPU."""
