// Softmax and layer normalisation of rows of 8192: a block has a row in registers, reads it once and writes it once.
// Bytes: 2 * rows * 8192 * sizeof(T).
// Share of the measured copy rate on one H200, the best variant of f8 and of f4: softmax 0.97 and 0.96; layer_norm
// 0.98 and 0.96.
#include "common.cuh"

__device__ __forceinline__ float exp_(float x) { return expf(x); }
__device__ __forceinline__ double exp_(double x) { return exp(x); }
__device__ __forceinline__ float sqrt_(float x) { return sqrtf(x); }
__device__ __forceinline__ double sqrt_(double x) { return sqrt(x); }

template <class T, int THREADS> __device__ void softmax(const T *a, T *c) {
    const int W = Vec<T>::W, K = 8192 / W / THREADS;
    i64 row = (i64)blockIdx.x * (8192 / W) + threadIdx.x;
    Pack<T> p[K];
    T top, total = 0;
#pragma unroll
    for (int k = 0; k < K; k++) p[k] = take(a, row + k * THREADS);
    top = p[0].x[0];
#pragma unroll
    for (int k = 0; k < K; k++)
        for (int j = 0; j < W; j++) top = max(top, p[k].x[j]);
    top = block_max(top);
#pragma unroll
    for (int k = 0; k < K; k++)
        for (int j = 0; j < W; j++) { p[k].x[j] = exp_(p[k].x[j] - top); total += p[k].x[j]; }
    total = T(1) / block_sum(total);
#pragma unroll
    for (int k = 0; k < K; k++) {
        for (int j = 0; j < W; j++) p[k].x[j] *= total;
        put(c, row + k * THREADS, p[k]);
    }
}
template <class T, int THREADS> __device__ void layer_norm(const T *a, T *c) {
    const int W = Vec<T>::W, K = 8192 / W / THREADS;
    i64 row = (i64)blockIdx.x * (8192 / W) + threadIdx.x;
    Pack<T> p[K];
    T total = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < K; k++) p[k] = take(a, row + k * THREADS);
#pragma unroll
    for (int k = 0; k < K; k++)
        for (int j = 0; j < W; j++) total += p[k].x[j];
    total = block_sum(total) / T(8192);
#pragma unroll
    for (int k = 0; k < K; k++)
        for (int j = 0; j < W; j++) { p[k].x[j] -= total; squares += p[k].x[j] * p[k].x[j]; }
    squares = T(1) / sqrt_(block_sum(squares) / T(8192) + T(1e-5));
#pragma unroll
    for (int k = 0; k < K; k++) {
        for (int j = 0; j < W; j++) p[k].x[j] *= squares;
        put(c, row + k * THREADS, p[k]);
    }
}
#define ALL(T, S, N)                                                                                              \
    extern "C" __global__ void __launch_bounds__(N) softmax_##S##_##N(const T *a, T *c) { softmax<T, N>(a, c); }  \
    extern "C" __global__ void __launch_bounds__(N) layer_norm_##S##_##N(const T *a, T *c) { layer_norm<T, N>(a, c); }
ALL(double, f8, 512) ALL(double, f8, 1024) ALL(float, f4, 256) ALL(float, f4, 512)
