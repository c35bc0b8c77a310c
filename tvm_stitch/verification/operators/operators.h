// What operators written as C++ by cxx.py call: TensorIR's arithmetic, with NaN and infinities as
// IEEE 754 has them, and the bits of half-precision numbers.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

template <typename T, typename F> T as(F value) { return static_cast<T>(value); }
template <typename T> T divided(T a, T b) {
  if constexpr (T(0.5) != T(0)) return a / b;
  else return b == 0 ? T(0) : b == T(-1) ? T(0 - a) : T(a / b);
}
template <typename T> T remainder(T a, T b) {
  if constexpr (T(0.5) != T(0)) return std::fmod(a, b);
  else return b == 0 || b == T(-1) ? T(0) : T(a % b);
}
template <typename T> T floor_divided(T a, T b) {
  if constexpr (T(0.5) != T(0)) return std::floor(a / b);
  else { T q = divided(a, b); return q * b != a && (a < 0) != (b < 0) ? T(q - 1) : q; }
}
template <typename T> T floor_remainder(T a, T b) {
  if constexpr (T(0.5) != T(0)) return a - std::floor(a / b) * b;
  else { T r = remainder(a, b); return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r; }
}
template <typename T> T most(T a, T b) { return a != a ? a : b != b ? b : a < b ? b : a; }
template <typename T> T least(T a, T b) { return a != a ? a : b != b ? b : b < a ? b : a; }
template <typename T> T sigmoid(T x) { return T(1) / (T(1) + std::exp(-x)); }
template <typename T> T inverse_root(T x) { return T(1) / std::sqrt(x); }
template <typename T> T power_of_ten(T x) { return std::pow(T(10), x); }
template <typename T, typename F> T reinterpreted(F from) {
  static_assert(sizeof(T) == sizeof(F), "bits of one width");
  T to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
uint16_t bfloat_bits(float x) {
  uint32_t bits = reinterpreted<uint32_t>(x);
  return x != x ? 0x7FC0 : uint16_t((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
float of_bfloat_bits(uint16_t bits) { return reinterpreted<float>(uint32_t(bits) << 16); }
// Round to nearest, ties to even, on the grid of float16 at the magnitude of x.
double half(double x) {
  if (x != x || x == 0 || std::isinf(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  double step = std::ldexp(1.0, (exponent < -13 ? -13 : exponent) - 11);
  double rounded = std::nearbyint(x / step) * step;
  return std::fabs(rounded) >= 65520.0 ? std::copysign(INFINITY, x) : rounded;
}
uint16_t half_bits(float x) {
  double value = half(x);
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (value != value) return 0x7E00;
  value = std::fabs(value);
  if (std::isinf(value)) return sign | 0x7C00;
  int exponent = 0;
  double fraction = std::frexp(value, &exponent);
  if (exponent < -13) return sign | uint16_t(std::ldexp(value, 24));
  return sign | uint16_t((exponent + 14) << 10) | (uint16_t(std::ldexp(fraction, 11)) & 0x3FF);
}
float of_half_bits(uint16_t bits) {
  int exponent = (bits >> 10) & 31, fraction = bits & 0x3FF;
  double value = std::ldexp(fraction, -24);
  if (exponent) value = std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) value = fraction ? NAN : INFINITY;
  return float(bits & 0x8000 ? -value : value);
}

}  // namespace
