// Elementwise kernels over n elements, U vectors of 16 bytes for each thread.
// Bytes: copy 2, triad 3, daxpy 3 (reads x and y, writes y), polynomial 2, black_scholes 3, eos 4 times n * sizeof(T);
// complex_multiply 3 times n * 2 * sizeof(T).
// Share of the measured copy rate on one H200, the best variant of f8 and of f4: triad 1.04 and 1.02; daxpy 1.03
// and 1.02; polynomial 1.00 and 0.98; eos 1.05 and 1.04; complex_multiply 1.04 and 1.03; black_scholes 0.44 and
// 0.75. black_scholes is bound by its functions.
#include "common.cuh"

template <class T, int U, class F> __device__ __forceinline__ void each(i64 n, F f) {
    i64 first = (i64)blockIdx.x * blockDim.x * U + threadIdx.x, count = n / Vec<T>::W;
#pragma unroll
    for (int u = 0; u < U; u++) {
        i64 i = first + (i64)u * blockDim.x;
        if (i < count) f(i);
    }
}
// The same with both operands of all vectors read before the first result is made.
template <class T, int U, class F>
__device__ __forceinline__ void zip(const T *a, const T *b, T *c, i64 n, F f) {
    i64 first = (i64)blockIdx.x * blockDim.x * U + threadIdx.x, count = n / Vec<T>::W;
    Pack<T> p[U], q[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
        i64 i = first + (i64)u * blockDim.x;
        if (i < count) { p[u] = take(a, i); if (b) q[u] = take(b, i); }
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
        i64 i = first + (i64)u * blockDim.x;
        if (i >= count) continue;
#pragma unroll
        for (int k = 0; k < Vec<T>::W; k++) p[u].x[k] = f(p[u].x[k], q[u].x[k]);
        put(c, i, p[u]);
    }
}

template <class T> __device__ __forceinline__ T horner(T x) {
    T p = T(0.9);
#pragma unroll
    for (int k = 1; k <= 15; k++) p = p * x + T(0.9 - 0.05 * k);
    return p;
}
__device__ __forceinline__ float tanh_(float x) { return tanhf(x); }
__device__ __forceinline__ double tanh_(double x) { return tanh(x); }
__device__ __forceinline__ float log_(float x) { return logf(x); }
__device__ __forceinline__ double log_(double x) { return log(x); }

template <class T> __device__ __forceinline__ T option(T a, T b) {
    T s = a * T(50) + T(50), k = b * T(50) + T(50);
    T d1 = (log_(s / k) + T(0.05)) / T(0.2), d2 = d1 - T(0.2);
    T n1 = T(0.5) * (T(1) + tanh_(T(0.79788) * (d1 + T(0.044715) * d1 * d1 * d1)));
    T n2 = T(0.5) * (T(1) + tanh_(T(0.79788) * (d2 + T(0.044715) * d2 * d2 * d2)));
    return s * n1 - k * n2 * T(0.97);
}

template <class T, int U>
__device__ __forceinline__ void cmul(const T *a, const T *b, T *c, i64 n) {
    each<T, U>(2 * n, [=](i64 i) {
        Pack<T> p = take(a, i), q = take(b, i), r;
#pragma unroll
        for (int k = 0; k < Vec<T>::W; k += 2) {
            r.x[k] = p.x[k] * q.x[k] - p.x[k + 1] * q.x[k + 1];
            r.x[k + 1] = p.x[k] * q.x[k + 1] + p.x[k + 1] * q.x[k];
        }
        put(c, i, r);
    });
}

// x[i] = u[i] + r*(z[i] + r*y[i]) + t*(u[i+3] + r*(u[i+2] + r*u[i+1]) + t*(u[i+6] + q*(u[i+5] + q*u[i+4])))
template <class T> __device__ __forceinline__ T one(const T *u, T y, T z) {
    const T q = T(0.5), r = T(0.25), t = T(0.125);
    return u[0] + r * (z + r * y) + t * (u[3] + r * (u[2] + r * u[1]) + t * (u[6] + q * (u[5] + q * u[4])));
}
template <class T, int U>
__device__ __forceinline__ void state(const T *u, const T *y, const T *z, T *x, i64 n) {
    const int W = Vec<T>::W, V = 1 + (6 + W - 1) / W;  // vectors of u that a vector of x looks at
    each<T, U>(n, [=](i64 i) {
        Pack<T> p[V], a = take(y, i), b = take(z, i), c;
        T all[V * W];
#pragma unroll
        for (int v = 0; v < V; v++) p[v] = take(u, i + v);  // u has 6 elements more than x, and some of the last vector
#pragma unroll
        for (int k = 0; k < V * W; k++) all[k] = p[k / W].x[k % W];
#pragma unroll
        for (int k = 0; k < W; k++) c.x[k] = one(all + k, a.x[k], b.x[k]);
        put(x, i, c);
    });
    i64 rest = n / W * W + (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (rest < n) x[rest] = one(u + rest, y[rest], z[rest]);
}

#define ALL(T, S, U)                                                                                              \
    extern "C" __global__ void copy_##S##_##U(const T *a, T *c, i64 n) {                                          \
        zip<T, U>(a, (const T *)0, c, n, [](T x, T) { return x; });                                               \
    }                                                                                                             \
    extern "C" __global__ void triad_##S##_##U(const T *a, const T *b, T *c, i64 n) {                             \
        zip<T, U>(a, b, c, n, [](T x, T y) { return x + T(0.5) * y; });                                           \
    }                                                                                                             \
    extern "C" __global__ void daxpy_##S##_##U(const T *x, T *y, i64 n) {                                         \
        each<T, U>(n, [=](i64 i) {                                                                                \
            Pack<T> p = take(x, i), q;                                                                            \
            q.v = reinterpret_cast<Vec<T>::V *>(y)[i];                                                            \
            for (int k = 0; k < Vec<T>::W; k++) q.x[k] += T(1e-9) * p.x[k];                                       \
            put(y, i, q);                                                                                         \
        });                                                                                                       \
    }                                                                                                             \
    extern "C" __global__ void polynomial_##S##_##U(const T *a, T *c, i64 n) {                                    \
        zip<T, U>(a, (const T *)0, c, n, [](T x, T) { return horner(x); });                                       \
    }                                                                                                             \
    extern "C" __global__ void black_scholes_##S##_##U(const T *a, const T *b, T *c, i64 n) {                     \
        zip<T, U>(a, b, c, n, [](T x, T y) { return option(x, y); });                                             \
    }                                                                                                             \
    extern "C" __global__ void complex_multiply_##S##_##U(const T *a, const T *b, T *c, i64 n) {                  \
        cmul<T, U>(a, b, c, n);                                                                                   \
    }                                                                                                             \
    extern "C" __global__ void eos_##S##_##U(const T *u, const T *y, const T *z, T *x, i64 n) {                   \
        state<T, U>(u, y, z, x, n);                                                                               \
    }
#define BOTH(U) ALL(double, f8, U) ALL(float, f4, U)
BOTH(1) BOTH(2) BOTH(4)
