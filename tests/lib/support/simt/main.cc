// Runs one kernel; simulator.py puts the kernel's source and SIMT_CALL in front.
#include <algorithm>

extern "C" char __start_simt_shared[], __stop_simt_shared[];
__attribute__((section("simt_shared"), used)) static char simt_not_empty[64];

static std::string simt_failed;

// Returns what is wrong, or nullptr. Blocks go one after the other, in an order drawn of the seed.
extern "C" const char* simt_run(void** args, const unsigned* grid, const unsigned* threads, unsigned seed) {
  simt::grid_size = {grid[0], grid[1], grid[2]};
  std::vector<unsigned> order(simt::grid_size.count());
  for (unsigned n = 0; n < order.size(); ++n) order[n] = n;
  std::mt19937 rng(seed);
  std::shuffle(order.begin(), order.end(), rng);
  simt::Block block({threads[0], threads[1], threads[2]}, seed);
  simt::block = &block;
  try {
    for (unsigned n : order) {
      simt::block_index = {n % grid[0], n / grid[0] % grid[1], n / grid[0] / grid[1]};
      std::memset(__start_simt_shared, simt::kPoison, __stop_simt_shared - __start_simt_shared);
      SIMT_POISON_DYNAMIC
      block.run([&] { SIMT_CALL });
    }
  } catch (const simt::Failure& failure) {
    simt_failed = failure.what;
    return simt_failed.c_str();
  }
  return nullptr;
}
