// Arrays of a kernel that know their bounds, and what each warp asks of memory at a time.
//
// Lanes of a warp that reach an access of one line of the source for the same time make one request.
// A request of global memory moves sectors of 32 bytes; of shared memory it takes as many turns as
// one bank has words to give.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>

namespace simt {

constexpr size_t kSector = 32, kBanks = 32, kWord = 4;

inline bool counting = false;

struct Counts {
  uint64_t loads = 0, stores = 0;    // requests
  uint64_t loaded = 0, stored = 0;   // sectors of global memory, turns of shared memory
  uint64_t least_loaded = 0, least_stored = 0;  // the same if lanes lay side by side
};

class Memory {
 public:
  enum Kind { kGlobal, kShared };

  explicit Memory(Kind kind) : kind_(kind) {}

  void access(size_t address, size_t bytes, bool is_store, int line) {
    if (!counting) return;
    Thread& own = block->now();
    const auto place = std::make_tuple(own.number, line, is_store);
    const auto key = std::make_tuple(own.number / kWarp, line, is_store, seen_[place]++);
    requests_[key].push_back({own.lane, address, bytes});
  }

  // Adds what the threads of a block have asked, and forgets it.
  void settle() {
    for (const auto& [key, lanes] : requests_) {
      const bool is_store = std::get<2>(key);
      const auto [turns, least] = kind_ == kGlobal ? sectors(lanes) : banks(lanes);
      (is_store ? counts.stores : counts.loads) += 1;
      (is_store ? counts.stored : counts.loaded) += turns;
      (is_store ? counts.least_stored : counts.least_loaded) += least;
    }
    requests_.clear();
    seen_.clear();
  }

  Counts counts;

 private:
  struct Lane {
    unsigned lane;
    size_t address;
    size_t bytes;
  };

  static std::pair<uint64_t, uint64_t> sectors(const std::vector<Lane>& lanes) {
    std::set<size_t> found, bytes;
    for (const Lane& each : lanes)
      for (size_t n = 0; n < each.bytes; ++n) {
        bytes.insert(each.address + n);
        found.insert((each.address + n) / kSector);
      }
    return {found.size(), (bytes.size() + kSector - 1) / kSector};
  }

  // 8 bytes a lane go by half a warp at a time, 16 by a quarter.
  static std::pair<uint64_t, uint64_t> banks(const std::vector<Lane>& lanes) {
    std::map<unsigned, std::map<size_t, std::set<size_t>>> turns;  // of each part, words by bank
    for (const Lane& each : lanes) {
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
  std::map<std::tuple<unsigned, int, bool, unsigned>, std::vector<Lane>> requests_;
};

template <typename T>
class Array;

// An element, which is loaded where its value is taken and stored where it is assigned.
template <typename T>
class Element {
 public:
  Element(T* place, size_t at, size_t count, Memory* memory, int line)
      : place_(place), at_(at), count_(count), memory_(memory), line_(line) {}
  Element(const Element&) = default;
  operator T() const {
    memory_->access(at_, sizeof(T), false, line_);
    return *place_;
  }
  template <typename U, typename = std::enable_if_t<!std::is_same_v<U, T>>>
  explicit operator U() const {
    return static_cast<U>(static_cast<T>(*this));
  }
  T operator=(T value) const {
    memory_->access(at_, sizeof(T), true, line_);
    return *place_ = value;
  }
  Array<T> operator&() const;
  T operator=(const Element& other) const { return *this = static_cast<T>(other); }

 private:
  T* place_;
  size_t at_;  // bytes behind the first element of its array, which begins a line of 128
  size_t count_;  // elements of the array
  Memory* memory_;
  int line_;
};

template <typename T>
T value_of(T value) {
  return value;
}
template <typename T>
T value_of(const Element<T>& element) {
  return element;
}

// An index, and the line of the source where it is one.
struct Place {
  template <typename I>
  Place(I index, int line = __builtin_LINE()) : index(index), line(line) {}
  ptrdiff_t index;
  int line;
};

// `count` elements from `begin` on, seen from `first`. What is outside of them ends the kernel.
template <typename T>
class Array {
 public:
  Array(T* begin, size_t count, Memory* memory) : Array(begin, begin, count, memory) {}

  Element<T> operator[](Place at) const { return Array(first_ + at.index, begin_, count_, memory_).vector<T>(at.line); }
  template <typename I>
  Array operator+(I by) const {
    return {first_ + by, begin_, count_, memory_};
  }
  template <typename V>
  Element<V> vector(int line) const {
    T* place = checked(first_, sizeof(V) / sizeof(T), line);
    const size_t count = count_ * sizeof(T) / sizeof(V);
    return {reinterpret_cast<V*>(place), (place - begin_) * sizeof(T), count, memory_, line};
  }

  Array(T* first, T* begin, size_t count, Memory* memory)
      : first_(first), begin_(begin), count_(count), memory_(memory) {}

 private:

  T* checked(T* place, ptrdiff_t elements, int line) const {
    const ptrdiff_t at = place - begin_;
    if (at < 0 || at + elements > static_cast<ptrdiff_t>(count_))
      block->stop("an array has no element", at, line);
    if (at % elements) block->stop("no vector begins at element", at, line);
    return place;
  }

  T *first_, *begin_;
  size_t count_;
  Memory* memory_;
};

template <typename T>
Array<T> Element<T>::operator&() const {
  return {place_, place_ - at_ / sizeof(T), count_, memory_};
}

// What *(V*)(array + n) names.
template <typename V, typename T>
Element<V> vector(const Array<T>& array, int line = __builtin_LINE()) {
  return array.template vector<V>(line);
}
template <typename V, typename T>
V& vector(T* registers) {
  return *reinterpret_cast<V*>(registers);
}

inline std::map<std::string, Memory> memories;

inline Memory* memory_of(const char* name, Memory::Kind kind) {
  return &memories.try_emplace(name, kind).first->second;
}

}  // namespace simt
