// What each warp asks of memory at a time.
//
// Lanes of a warp that reach an access of one line of the source for the same time make one request.
// A request of global memory moves sectors of 32 bytes; of shared memory it takes as many turns as
// one bank has words to give.
#include "requests.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "simt.h"

namespace simt {

namespace {

constexpr size_t kSector = 32, kBanks = 32, kWord = 4;

}  // namespace

bool counting = false;

class Memory {
 public:
  explicit Memory(Kind kind) : kind_(kind) {}

  void access(size_t address, size_t bytes, bool is_store, int line) {
    const auto place = std::make_tuple(now->number, line, is_store);
    const auto key = std::make_tuple(now->number / kWarp, line, is_store, seen_[place]++);
    requests_[key].push_back({now->lane, address, bytes});
  }

  // Adds what the threads of a block have asked, and forgets it.
  void settle() {
    for (const auto& [key, lanes] : requests_) {
      const bool is_store = std::get<2>(key);
      const auto [turns, least] = kind_ == Kind::kGlobal ? sectors(lanes) : banks(lanes);
      (is_store ? counts.stores : counts.loads) += 1;
      (is_store ? counts.stored : counts.loaded) += turns;
      (is_store ? counts.least_stored : counts.least_loaded) += least;
    }
    requests_.clear();
    seen_.clear();
  }

  Counts counts;

 private:
  struct Asked {
    unsigned lane;
    size_t address;
    size_t bytes;
  };

  static std::pair<uint64_t, uint64_t> sectors(const std::vector<Asked>& lanes) {
    std::set<size_t> found, bytes;
    for (const Asked& each : lanes)
      for (size_t n = 0; n < each.bytes; ++n) {
        bytes.insert(each.address + n);
        found.insert((each.address + n) / kSector);
      }
    return {found.size(), (bytes.size() + kSector - 1) / kSector};
  }

  // 8 bytes a lane go by half a warp at a time, 16 by a quarter.
  static std::pair<uint64_t, uint64_t> banks(const std::vector<Asked>& lanes) {
    std::map<unsigned, std::map<size_t, std::set<size_t>>> turns;  // of each part, words by bank
    for (const Asked& each : lanes) {
      const size_t words = each.bytes > kWord ? each.bytes / kWord : 1;
      for (size_t n = 0; n < words; ++n) {
        const size_t word = each.address / kWord + n;
        turns[each.lane * words / kWarp][word % kBanks].insert(word);
      }
    }
    uint64_t total = 0;
    for (const auto& [part, by_bank] : turns) {
      size_t most = 0;
      for (const auto& [bank, words] : by_bank) most = std::max(most, words.size());
      total += most;
    }
    return {total, turns.size()};
  }

  Kind kind_;
  std::map<std::tuple<unsigned, int, bool>, unsigned> seen_;
  std::map<std::tuple<unsigned, int, bool, unsigned>, std::vector<Asked>> requests_;
};

namespace {

std::map<std::string, Memory> memories;

}  // namespace

Memory* memory_of(const char* name, Kind kind) {
  return &memories.try_emplace(name, kind).first->second;
}

void asked(Memory* memory, size_t address, size_t bytes, bool is_store, int line) {
  memory->access(address, bytes, is_store, line);
}

void settle_requests() {
  for (auto& [name, memory] : memories) memory.settle();
}

void forget_requests() { memories.clear(); }

}  // namespace simt

// Writes the counts of an array of the last run; returns whether there is one of the name.
extern "C" bool simt_counts(const char* name, simt::Counts* out) {
  const auto found = simt::memories.find(name);
  if (found == simt::memories.end()) return false;
  *out = found->second.counts;
  return true;
}
