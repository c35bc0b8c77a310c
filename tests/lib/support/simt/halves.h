// half and nv_bfloat16: computed in float, rounded after each operation, to even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simt {

inline uint16_t rounded_half(float value) {
  const _Float16 made = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &made, sizeof bits);
  return bits;
}

inline float widened_half(uint16_t bits) {
  _Float16 value;
  std::memcpy(&value, &bits, sizeof bits);
  return static_cast<float>(value);
}

inline uint16_t rounded_bfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float widened_bfloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

}  // namespace simt

#define SIMT_OPERATOR(type, sign)                                                     \
  inline type operator sign(type a, type b) {                                         \
    return type(static_cast<float>(a) sign static_cast<float>(b));                    \
  }

#define SIMT_HALF(type, rounded, widened)                                             \
  struct type {                                                                       \
    uint16_t bits;                                                                    \
    type() = default;                                                                 \
    template <typename N, typename = std::enable_if_t<std::is_arithmetic_v<N>>>       \
    type(N number) : bits(simt::rounded(static_cast<float>(number))) {}               \
    operator float() const { return simt::widened(bits); }                            \
  };                                                                                  \
  struct alignas(4) type##2 {                                                         \
    type x, y;                                                                        \
    type##2() = default;                                                              \
    type##2(type x, type y) : x(x), y(y) {}                                           \
  };                                                                                  \
  SIMT_OPERATOR(type, +) SIMT_OPERATOR(type, -) SIMT_OPERATOR(type, *) SIMT_OPERATOR(type, /) \
  inline bool __hgt(type a, type b) { return static_cast<float>(a) > static_cast<float>(b); } \
  inline bool __hlt(type a, type b) { return static_cast<float>(a) < static_cast<float>(b); } \
  SIMT_MATH(type, hexp, std::exp) SIMT_MATH(type, hexp2, std::exp2) SIMT_MATH(type, hlog, std::log) \
  SIMT_MATH(type, hlog2, std::log2) SIMT_MATH(type, hlog10, std::log10) SIMT_MATH(type, hsqrt, std::sqrt) \
  SIMT_MATH(type, hsin, std::sin) SIMT_MATH(type, hcos, std::cos) SIMT_MATH(type, hfloor, std::floor) \
  SIMT_MATH(type, hceil, std::ceil) SIMT_MATH(type, htrunc, std::trunc) SIMT_MATH(type, hrint, std::rint) \
  SIMT_MATH(type, htanh, std::tanh) SIMT_MATH(type, __habs, std::fabs)

#define SIMT_MATH(type, name, of) \
  inline type name(type a) { return type(of(static_cast<float>(a))); }

SIMT_HALF(half, rounded_half, widened_half)
SIMT_HALF(nv_bfloat16, rounded_bfloat, widened_bfloat)

using __half = half;
using __nv_bfloat16 = nv_bfloat16;
using __half2 = half2;
using __nv_bfloat162 = nv_bfloat162;
inline float __half2float(half a) { return a; }
inline half __float2half(float a) { return a; }
inline half __float2half_rn(float a) { return a; }
inline float __bfloat162float(nv_bfloat16 a) { return a; }
inline nv_bfloat16 __float2bfloat16(float a) { return a; }
inline nv_bfloat16 __float2bfloat16_rn(float a) { return a; }
