// The short vectors by which CUDA loads and stores up to 128 bits at a time.
#pragma once

#define SIMT_VECTORS(type, name)                                            \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };                  \
  struct name##3 { type x, y, z; };                                         \
  struct alignas(sizeof(type) > 4 ? 16 : 4 * sizeof(type)) name##4 { type x, y, z, w; }; \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }          \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

SIMT_VECTORS(char, char)
SIMT_VECTORS(unsigned char, uchar)
SIMT_VECTORS(short, short)
SIMT_VECTORS(unsigned short, ushort)
SIMT_VECTORS(int, int)
SIMT_VECTORS(unsigned, uint)
SIMT_VECTORS(float, float)
SIMT_VECTORS(double, double)
SIMT_VECTORS(long long, longlong)
SIMT_VECTORS(unsigned long long, ulonglong)

#define SIMT_ORDER(type)                                     \
  inline type min(type a, type b) { return a < b ? a : b; } \
  inline type max(type a, type b) { return a > b ? a : b; }

SIMT_ORDER(int)
SIMT_ORDER(unsigned)
SIMT_ORDER(long)
SIMT_ORDER(unsigned long)
// As CUDA's, these give the other number if one is NaN.
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
