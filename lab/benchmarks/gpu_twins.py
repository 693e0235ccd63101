"""CUDA C++ twins of the course's Numba kernels, with the same algorithm line by line.

They show the cost of Numba compared with C++; they are not examples of fast CUDA C++. For the
quadratic formula and the Mandelbrot set, the course itself has both versions ("CuPy: NumPy on the
device", "One problem, every tool").
"""

from __future__ import annotations

#: ``sum_all`` of "Trees and barriers"; blocks of 128 threads.
SUM_ALL = """
extern "C" __global__ void sum_all(const float *values, long long size, double *total)
{
    __shared__ double place[128];
    int t = threadIdx.x;
    double mine = 0;
    for (long long i = (long long) blockIdx.x * blockDim.x + t; i < size;
         i += (long long) gridDim.x * blockDim.x)
        mine += values[i];
    place[t] = mine;
    __syncthreads();
    int n = 128;
    while (n > 1) {
        int half = (n + 1) / 2;
        if (t + half < n) place[t] += place[t + half];
        __syncthreads();
        n = half;
    }
    if (t == 0) atomicAdd(total, place[0]);
}
"""

#: ``fill_shared`` of "Filling a histogram in parallel".
FILL_SHARED = """
__device__ int bin_index(double value, double low, double high, int bins)
{
    if (value < low) return 0;
    if (value < high) {
        int position = (int) ((value - low) / (high - low) * bins) + 1;
        return position < bins ? position : bins;
    }
    return bins + 1;
}

extern "C" __global__ void fill_shared(const double *values, long long size, double low,
                                       double high, int *counts, int slots)
{
    __shared__ int mine[1024];
    for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) mine[slot] = 0;
    __syncthreads();
    for (long long i = (long long) blockIdx.x * blockDim.x + threadIdx.x; i < size;
         i += (long long) gridDim.x * blockDim.x)
        atomicAdd(&mine[bin_index(values[i], low, high, slots - 2)], 1);
    __syncthreads();
    for (int slot = threadIdx.x; slot < slots; slot += blockDim.x)
        if (mine[slot] > 0) atomicAdd(&counts[slot], mine[slot]);
}
"""

#: NVIDIA's CUB, called as in its documentation; compiled by nvcc if that is installed.
CUB = """
#include <cub/cub.cuh>

// Even bins between low and high; samples outside are not counted. Returns a cudaError_t.
extern "C" int histogram_even(void *scratch, size_t *bytes, const double *samples, int *counts,
                              int bins, double low, double high, int size)
{
    return cub::DeviceHistogram::HistogramEven(scratch, *bytes, samples, counts, bins + 1, low,
                                               high, size);
}

extern "C" int reduce_sum(void *scratch, size_t *bytes, const float *values, float *total,
                          long long size)
{
    return cub::DeviceReduce::Sum(scratch, *bytes, values, total, size);
}
"""
