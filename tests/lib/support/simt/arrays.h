// Arrays of a kernel that know their bounds, and tell what each warp asks of memory at a time.
#pragma once

#include <type_traits>

namespace simt {

class Memory;
enum class Kind { kGlobal, kShared };

extern bool counting;  // whether what is asked of memory is counted: requests.cc
void asked(Memory* memory, size_t address, size_t bytes, bool is_store, int line);
Memory* memory_of(const char* name, Kind kind);

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
    if (counting) asked(memory_, at_, sizeof(T), false, line_);
    return *place_;
  }
  template <typename U, typename = std::enable_if_t<!std::is_same_v<U, T>>>
  explicit operator U() const {
    return static_cast<U>(static_cast<T>(*this));
  }
  T operator=(T value) const {
    if (counting) asked(memory_, at_, sizeof(T), true, line_);
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
      stop("an array has no element", at, line);
    if (at % elements) stop("no vector begins at element", at, line);
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

}  // namespace simt
