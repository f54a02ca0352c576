// Sum of the distances between all pairs of n points of 3 coordinates, which are never stored.
// Bytes: 3 * n * sizeof(T), next to nothing; the operations count: 3 differences, 3 squares, 3 sums and a root a pair.
#include "common.cuh"
#define BLOCK 256

template <class T, int P> __device__ void pairs(const T *x, T *out, T *states, unsigned *counter, i64 n) {
    __shared__ T tile[3][BLOCK];
    T a[P][3], total = 0;
    for (int p = 0; p < P; p++)
        for (int d = 0; d < 3; d++) a[p][d] = x[((i64)(blockIdx.x * P + p) * BLOCK + threadIdx.x) * 3 + d];
    i64 length = n / gridDim.y, first = blockIdx.y * length;
    for (i64 j = first; j < first + length; j += BLOCK) {
        __syncthreads();
        for (int d = 0; d < 3; d++) tile[d][threadIdx.x] = x[(j + threadIdx.x) * 3 + d];
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < BLOCK; k++)
#pragma unroll
            for (int p = 0; p < P; p++) {
                T u = a[p][0] - tile[0][k], v = a[p][1] - tile[1][k], w = a[p][2] - tile[2][k];
                total += sqrt(u * u + v * v + w * w);
            }
    }
    total = block_sum(total);
    int blocks = gridDim.x * gridDim.y;
    if (threadIdx.x == 0) states[blockIdx.y * gridDim.x + blockIdx.x] = total;
    if (!last_of(counter, blocks)) return;
    total = 0;
    for (int k = threadIdx.x; k < blocks; k += BLOCK) total += __ldcg(states + k);
    total = block_sum(total);
    if (threadIdx.x == 0) *out = total;
}
#define ALL(T, S, P)                                                                                              \
    extern "C" __global__ void __launch_bounds__(BLOCK) pairs_##S##_##P(                                          \
        const T *x, T *out, T *states, unsigned *counter, i64 n) { pairs<T, P>(x, out, states, counter, n); }
ALL(double, f8, 1) ALL(double, f8, 2) ALL(float, f4, 1) ALL(float, f4, 2) ALL(float, f4, 4)
