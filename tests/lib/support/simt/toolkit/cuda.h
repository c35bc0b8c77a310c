// What TVM's CUDA source includes; simt.h has all that it names.
