// What lies across or in short rows.
// Bytes: transposed 2, short_rows 1 + 1/16 times n * sizeof(T).
// Share of the measured copy rate on one H200, the best variant of f8 and of f4: transposed 0.93 and 0.87;
// short_rows 1.02 and 1.00.
#include "common.cuh"

// out = m + m.T by tiles of 32 x 32 in shared memory, R rows of a tile for each thread.  Tiles that lie across each other
// follow each other: (0, 0); (1, 0), (0, 1), (1, 1); (2, 0), (0, 2), (2, 1), (1, 2), (2, 2) ...
template <class T, int R> __device__ void transposed(const T *m, T *out, i64 size) {
    __shared__ T tile[32][33];
    const int step = 32 / R;
    int x = threadIdx.x & 31, y = threadIdx.x >> 5;
    int number = blockIdx.y * gridDim.x + blockIdx.x, shell = (int)sqrtf((float)number);
    if (shell * shell > number) shell--;
    int rest = number - shell * shell, other = rest >> 1;
    i64 column = 32 * (rest & 1 ? shell : other), row = 32 * (rest & 1 ? other : shell);
    T own[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        tile[y + r * step][x] = __ldg(m + (column + y + r * step) * size + row + x);
        own[r] = __ldg(m + (row + y + r * step) * size + column + x);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < R; r++) out[(row + y + r * step) * size + column + x] = own[r] + tile[x][y + r * step];
}
// Maximum of each 16 neighbours: 16 bytes a thread, R rows in flight.
template <class T, int R> __device__ void rows16(const T *m, T *out, i64 n) {
    const int W = Vec<T>::W, G = 16 / W;
    i64 first = (i64)blockIdx.x * blockDim.x * R + threadIdx.x;
    Pack<T> p[R];
#pragma unroll
    for (int r = 0; r < R; r++) p[r] = take(m, first + (i64)r * blockDim.x);
#pragma unroll
    for (int r = 0; r < R; r++) {
        T top = p[r].x[0];
        for (int k = 1; k < W; k++) top = max(top, p[r].x[k]);
        for (int d = 1; d < G; d <<= 1) top = max(top, __shfl_xor_sync(~0u, top, d));
        if (threadIdx.x % G == 0) out[(first + (i64)r * blockDim.x) / G] = top;
    }
}
#define ALL(T, S, R)                                                                                              \
    extern "C" __global__ void __launch_bounds__(32 * 32 / R) transposed_##S##_##R(                               \
        const T *m, T *out, i64 size) { transposed<T, R>(m, out, size); }                                         \
    extern "C" __global__ void short_rows_##S##_##R(const T *m, T *out, i64 n) { rows16<T, R>(m, out, n); }
#define BOTH(R) ALL(double, f8, R) ALL(float, f4, R)
BOTH(2) BOTH(4) BOTH(8)
