// What requests.cc keeps of a run.
#pragma once

#include <cstdint>

namespace simt {

struct Counts {
  uint64_t loads = 0, stores = 0;    // requests
  uint64_t loaded = 0, stored = 0;   // sectors of global memory, turns of shared memory
  uint64_t least_loaded = 0, least_stored = 0;  // the same if lanes lay side by side
};

// Adds what the threads of a block have asked, and forgets it.
void settle_requests();
// Begins anew.
void forget_requests();

}  // namespace simt
