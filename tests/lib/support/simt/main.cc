// Runs one kernel; simulator.py puts the kernel's source and SIMT_CALL in front.
extern "C" char __start_simt_shared[], __stop_simt_shared[];
__attribute__((section("simt_shared"), used)) static char simt_not_empty[64];

static std::string simt_failed;

// The bytes of an element of each argument.
extern "C" const size_t simt_items[] = {SIMT_ITEMS};

// Returns what is wrong, or nullptr. `counts` are the elements of each argument. Blocks go one after
// the other, in an order drawn of the seed.
extern "C" const char* simt_run(void** args, const size_t* counts, const unsigned* grid, const unsigned* threads,
                                unsigned seed, bool counting) {
  simt::memories.clear();
  simt::counting = counting;
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
      block.run([&] { SIMT_CALL });
      for (auto& [name, memory] : simt::memories) memory.settle();
    }
  } catch (const simt::Failure& failure) {
    simt_failed = failure.what;
    return simt_failed.c_str();
  }
  return nullptr;
}

// Writes the counts of an array of the last run; returns whether there is one of the name.
extern "C" bool simt_counts(const char* name, simt::Counts* out) {
  const auto found = simt::memories.find(name);
  if (found == simt::memories.end()) return false;
  *out = found->second.counts;
  return true;
}
