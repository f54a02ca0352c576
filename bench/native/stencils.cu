// Stencils that march over R rows (planes) with the middle column in registers.
// Bytes: the grid read once and its inside written once, about 2 * points * sizeof(T).
// Share of the measured copy rate on one H200, the best variant of f8 and of f4: five 0.93 and 0.79; seven 0.86
// and 0.66.
#include "common.cuh"

// out[i, j] = 0.5 * u[i, j] + 0.125 * (u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1]), written densely.
template <class T, int R> __device__ void five(const T *u, T *out, i64 rows, i64 width) {
    i64 j = (i64)blockIdx.x * blockDim.x + threadIdx.x + 1, i = (i64)blockIdx.y * R + 1;
    if (j >= width - 1) return;
    const T *p = u + i * width + j;
    T above = __ldg(p - width), here = __ldg(p);
#pragma unroll
    for (int r = 0; r < R; r++, p += width) {
        if (i + r >= rows - 1) return;
        T below = __ldg(p + width);
        out[(i + r - 1) * (width - 2) + j - 1] = T(0.5) * here + T(0.125) * (above + below + __ldg(p - 1) + __ldg(p + 1));
        above = here; here = below;
    }
}
// The same for three dimensions: 0.4 of the middle and 0.1 of each neighbour.
template <class T, int R> __device__ void seven(const T *u, T *out, i64 planes, i64 rows, i64 width) {
    i64 k = (i64)blockIdx.x * 64 + (threadIdx.x & 63) + 1, j = (i64)blockIdx.y * 4 + (threadIdx.x >> 6) + 1;
    i64 i = (i64)blockIdx.z * R + 1, plane = rows * width;
    if (k >= width - 1 || j >= rows - 1) return;
    const T *p = u + i * plane + j * width + k;
    T above = __ldg(p - plane), here = __ldg(p);
#pragma unroll 4
    for (int r = 0; r < R; r++, p += plane) {
        if (i + r >= planes - 1) return;
        T below = __ldg(p + plane);
        out[((i + r - 1) * (rows - 2) + j - 1) * (width - 2) + k - 1] =
            T(0.4) * here + T(0.1) * (above + below + __ldg(p - width) + __ldg(p + width) + __ldg(p - 1) + __ldg(p + 1));
        above = here; here = below;
    }
}
#define ALL(T, S, R)                                                                                              \
    extern "C" __global__ void stencil5_##S##_##R(const T *u, T *out, i64 rows, i64 width) {                      \
        five<T, R>(u, out, rows, width); }                                                                        \
    extern "C" __global__ void stencil7_##S##_##R(const T *u, T *out, i64 planes, i64 rows, i64 width) {          \
        seven<T, R>(u, out, planes, rows, width); }
#define BOTH(R) ALL(double, f8, R) ALL(float, f4, R)
BOTH(4) BOTH(8) BOTH(16)
