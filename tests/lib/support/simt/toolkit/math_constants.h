// The constants of CUDA's header that TVM's sources name.
#pragma once

#include <cmath>

#define CUDART_INF_F INFINITY
#define CUDART_INF static_cast<double>(INFINITY)
#define CUDART_NAN_F NAN
#define CUDART_NAN static_cast<double>(NAN)
