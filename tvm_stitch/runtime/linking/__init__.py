"""One shared library of what TVM built, the kernels built beside it, and our runtime half."""
