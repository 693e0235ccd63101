"""Right answers to the exercises of "PyCUDA" in other styles than the lecture's."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wrong_answers import answers_of, other_styles

#: The lecture's modules and `pycuda.driver`, as the wrong answers have them.
known = answers_of(Path(__file__).parent.name)
drv, scale = known.drv, known.scale

RIGHT, right = other_styles("04_pycuda")


HEAD = "__global__ void radius_of(const float *pt, float field, float *radius, int n)\n"
right("first-kernel", "leaves early")(HEAD + """{
    const int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n) return;
    radius[i] = pt[i] / 0.3f / field;
}""")
right("first-kernel", "strides")(HEAD + """{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        radius[i] = pt[i] / (field * 0.3f);
}""")
right("mend", "in double precision")("""
__global__ void reach(const float *radius, float *fraction, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        double third = 2.0 * radius[i] / 3;
        fraction[i] = third < 1 ? (float) third : 1.0f;
    }
}
""")
right("mend", "strides")("""
__global__ void reach(const float *radius, float *fraction, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        fraction[i] = min(2 * radius[i] / 3, 1.0f);
}
""")


@right("fitting-types")
def by_hand(values, by):
    result = np.ascontiguousarray(np.asarray(values, dtype="f4")).copy()
    if result.size == 0:
        return result
    d_values = drv.to_device(result)
    scale(d_values, np.float32(by), np.int32(result.size), block=(64, 1, 1),
          grid=(-(-result.size // 64), 1))
    drv.memcpy_dtoh(result, d_values)
    return result


@right("fitting-types")
def in_blocks_of_256(values, by):
    result = np.array([*values], np.float32)
    blocks = max(1, (len(result) + 255) // 256)
    scale(drv.InOut(result), np.float32(by), np.int32(len(result)), block=(256, 1, 1),
          grid=(blocks, 1, 1))
    return result


def by_gpuarray(values, by):
    from pycuda import gpuarray

    d_values = gpuarray.to_gpu(np.array(values, np.float32))
    for factor in np.atleast_1d(np.float32(by)):
        scale(d_values, factor, np.int32(d_values.size), block=(256, 1, 1),
              grid=(d_values.size // 256 + 1, 1))
    return d_values.get()


right("fitting-types")(by_gpuarray)
right("copy-once")(by_gpuarray)


@right("copy-once")
def to_device_and_back(pt, factors):
    d_pt = drv.to_device(pt)
    for factor in factors:
        scale(d_pt, np.float32(factor), np.int32(pt.size), block=(256, 1, 1),
              grid=((pt.size + 255) // 256, 1))
    return drv.from_device_like(d_pt, pt)


@right("copy-once")
def memory_first(pt, factors):
    result, n = np.empty(len(pt), np.float32), np.int32(len(pt))
    d_pt = drv.mem_alloc(result.nbytes)
    drv.memcpy_htod(d_pt, pt)
    for factor in map(np.float32, factors):
        scale(d_pt, factor, n, block=(32, 1, 1), grid=(int(n) // 32 + 1, 1))
    drv.memcpy_dtoh(result, d_pt)
    return result


def table_by_bytes(field_map):
    address, size = known.of_the_lecture("follow", "-DRINGS=7").get_global("field")
    values = np.float32(field_map)
    assert values.nbytes == size
    drv.memcpy_htod(address, values.tobytes())
    return known.follow(np.zeros((201, 40), np.float32), np.zeros((201, 40), np.float32))


def a_list_of_two(field_map):
    return list(known.paths(tuple(field_map)))


def an_array_of_two(field_map):
    return np.stack(table_by_bytes(field_map))


right("field-table")(an_array_of_two, known.PT, known.PHI, known.CHARGE)
right("field-table")(table_by_bytes, known.PT, known.PHI, known.CHARGE)
right("field-table")(a_list_of_two, known.PT, known.PHI, known.CHARGE)
