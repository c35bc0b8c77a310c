// nvcuda::wmma for fibers: each lane has the whole of a fragment, and stores its part of it.
#pragma once

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int M, int N, int K, typename T, typename Layout = void>
struct fragment {
  float x[M * N];  // by rows
};

template <typename F>
void fill_fragment(F& into, float value) {
  for (float& each : into.x) each = value;
}

template <typename Use, int M, int N, int K, typename T, typename Layout>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& into, const simt::Array<T>& from, unsigned pitch) {
  constexpr bool turned = std::is_same_v<Layout, col_major>;
  for (int row = 0; row < M; ++row)
    for (int column = 0; column < N; ++column)
      into.x[row * N + column] =
          static_cast<float>(static_cast<T>(from[turned ? column * pitch + row : row * pitch + column]));
}

template <typename F, typename A, typename B>
void mma_sync(F& into, const A& left, const B& right, const F& sums) {
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 16; ++column) {
      float sum = sums.x[row * 16 + column];
      for (int term = 0; term < 16; ++term) sum += left.x[row * 16 + term] * right.x[term * 16 + column];
      into.x[row * 16 + column] = sum;
    }
}

template <int M, int N, int K, typename T>
void store_matrix_sync(const simt::Array<T>& into, const fragment<accumulator, M, N, K, T>& from, unsigned pitch,
                       layout_t) {
  for (unsigned at = simt::now->lane; at < M * N; at += simt::kWarp)
    into[at / N * pitch + at % N] = from.x[at];
}

}  // namespace wmma
}  // namespace nvcuda
