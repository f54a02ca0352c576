// What the hand-written kernels share: 16-byte vectors of either precision, block sums, the last block of a grid.
#pragma once
#include <stddef.h>

typedef long long i64;

template <class T> struct Vec;
template <> struct Vec<double> { typedef double2 V; enum { W = 2 }; };
template <> struct Vec<float> { typedef float4 V; enum { W = 4 }; };

template <class T> union Pack {
    typename Vec<T>::V v;
    T x[Vec<T>::W];
};

template <class T> __device__ __forceinline__ Pack<T> take(const T *p, i64 i) {
    Pack<T> r;
    r.v = __ldg(reinterpret_cast<const typename Vec<T>::V *>(p) + i);
    return r;
}
template <class T> __device__ __forceinline__ void put(T *p, i64 i, Pack<T> r) {
    reinterpret_cast<typename Vec<T>::V *>(p)[i] = r.v;
}

// Sum over a block of at most 1024 threads; every thread gets it.
template <class T> __device__ T block_sum(T s) {
    __shared__ T part[33];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
    __syncthreads();
    s = (threadIdx.x & 31) < blockDim.x / 32 ? part[threadIdx.x & 31] : T(0);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    return s;
}
template <class T> __device__ T block_max(T s) {
    __shared__ T part[33];
    for (int d = 16; d; d >>= 1) s = max(s, __shfl_xor_sync(~0u, s, d));
    __syncthreads();
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
    __syncthreads();
    s = part[(threadIdx.x & 31) % (blockDim.x / 32)];
    for (int d = 16; d; d >>= 1) s = max(s, __shfl_xor_sync(~0u, s, d));
    return s;
}

// Whether this block is the last of `blocks` to come here; the counter starts and ends at 0.
__device__ __forceinline__ bool last_of(unsigned *counter, unsigned blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1u) == blocks - 1;
        if (last) *counter = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}
