// What TVM's CUDA source includes; halves.h has what it names.
#include "../halves.h"
