"""The C++ around generated kernels: types of elements, arrays and indices.

Kernels can use the names of CuPy's own headers: ``CArray`` (indexed by element number or by one
index per dimension, ``size()``, ``shape()``, ``strides()``), ``CIndexer``, ``complex``,
``float16``, ``CUPY_FOR``, ``M_PI``, ``CUDART_INF``, ``CUDART_NAN`` and their ``_F`` versions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from virtualgpu.standins.interface import THRUST_COMPLEX, source_path

HALF = r"""#pragma once
#include <cuda_fp16.h>
// Half precision in memory, single precision in arithmetic.
class float16 {
    __half data_;
public:
    __device__ float16() {}
    __device__ float16(__half value) : data_(value) {}
    template <class T> __device__ float16(T value) : data_(__float2half(float(value))) {}
    __device__ operator float() const { return __half2float(data_); }
    __device__ __half raw() const { return data_; }
    __device__ float16 &operator+=(float other) { return *this = float16(float(*this) + other); }
    __device__ float16 &operator-=(float other) { return *this = float16(float(*this) - other); }
    __device__ float16 &operator*=(float other) { return *this = float16(float(*this) * other); }
    __device__ float16 &operator/=(float other) { return *this = float16(float(*this) / other); }
};
"""

# cuda::std::complex accepts only operands of its own type
COMPLEX = r"""#pragma once
#include <thrust/complex.h>
#include <cuda/std/type_traits>
using thrust::complex;
#define CUPY_MIXED(op) \
template <class T, class S, class = cuda::std::enable_if_t<cuda::std::is_arithmetic_v<S> \
          && !cuda::std::is_same_v<S, T>>> \
__device__ complex<T> operator op(const complex<T> &a, S b) { return a op T(b); } \
template <class T, class S, class = cuda::std::enable_if_t<cuda::std::is_arithmetic_v<S> \
          && !cuda::std::is_same_v<S, T>>> \
__device__ complex<T> operator op(S a, const complex<T> &b) { return T(a) op b; }
CUPY_MIXED(+) CUPY_MIXED(-) CUPY_MIXED(*) CUPY_MIXED(/)
#undef CUPY_MIXED
"""

CONSTANTS = r"""#pragma once
// Word for word as in math_constants.h: source that includes that defines them a second time.
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ULL)
#define CUDART_NAN __longlong_as_double(0xfff8000000000000ULL)
#define CUDART_INF_F __int_as_float(0x7f800000U)
#define CUDART_NAN_F __int_as_float(0x7fffffffU)
"""

ARRAYS = r"""#pragma once
#include "cupy/math_constants.h"
#ifndef M_PI
#define M_PI 3.1415926535897932384626433832795
#endif
#define CUPY_FOR(i, n) \
    for (ptrdiff_t i = ptrdiff_t(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); \
         i += ptrdiff_t(gridDim.x) * blockDim.x)

template <int dimensions> class CIndexer {
    static const int room = dimensions > 0 ? dimensions : 1;
    ptrdiff_t size_, shape_[room], index_[room];
public:
    static const int ndim = dimensions;
    __device__ ptrdiff_t size() const { return size_; }
    __device__ const ptrdiff_t *shape() const { return shape_; }
    __device__ const ptrdiff_t (&get() const)[room] { return index_; }
    __device__ void set(ptrdiff_t i) {
        #pragma unroll
        for (int axis = dimensions - 1; axis > 0; axis--) {
            index_[axis] = i % shape_[axis];
            i /= shape_[axis];
        }
        index_[0] = i;
    }
};

template <class T, int dimensions, bool contiguous = false, bool narrow = false> class CArray {
    static const int room = dimensions > 0 ? dimensions : 1;
    T *data_;
    ptrdiff_t size_, shape_[room], strides_[room];
    __device__ T &at(ptrdiff_t offset) const {
        return *reinterpret_cast<T *>(reinterpret_cast<char *>(data_) + offset);
    }
    __device__ T &by_number(ptrdiff_t i) const {
        if (contiguous) return data_[i];
        ptrdiff_t offset = 0;
        #pragma unroll
        for (int axis = dimensions - 1; axis > 0; axis--) {
            offset += strides_[axis] * (i % shape_[axis]);
            i /= shape_[axis];
        }
        if (dimensions > 0) offset += strides_[0] * i;
        return at(offset);
    }
    template <class I, int n> __device__ T &by_index(const I (&index)[n]) const {
        if (dimensions == 0) return *data_;
        if (dimensions == 1 && contiguous) return data_[index[0]];
        ptrdiff_t offset = 0;
        #pragma unroll
        for (int axis = 0; axis < dimensions; axis++) offset += strides_[axis] * index[axis];
        return at(offset);
    }
public:
    static const int ndim = dimensions;
    CArray() = default;
    template <class I> __device__ CArray(T *data, const I *shape, const I *strides)
        : data_(data), size_(1) {
        for (int axis = 0; axis < dimensions; axis++) {
            shape_[axis] = shape[axis];
            strides_[axis] = strides[axis];
            size_ *= shape[axis];
        }
    }
    __device__ ptrdiff_t size() const { return size_; }
    __device__ const ptrdiff_t *shape() const { return shape_; }
    __device__ const ptrdiff_t *strides() const { return strides_; }
    __device__ T &operator[](ptrdiff_t i) { return by_number(i); }
    __device__ const T &operator[](ptrdiff_t i) const { return by_number(i); }
    template <class I, int n> __device__ T &operator[](const I (&index)[n])
    { return by_index(index); }
    template <class I, int n> __device__ const T &operator[](const I (&index)[n]) const
    { return by_index(index); }
};
"""

ATOMICS = r"""#pragma once
#include "cupy/float16.cuh"
// What CUDA has not: the larger and the smaller of two numbers, and sums of float16.
#define CUPY_ATOMIC(name, choice, T, I, bits, value_of) \
__device__ inline T name(T *address, T value) { \
    I *place = reinterpret_cast<I *>(address), old = (I)bits(value), seen; /* a guess */ \
    do { \
        seen = old; \
        old = atomicCAS(place, seen, (I)bits(choice(value, value_of(seen)))); \
    } while (seen != old); \
    return value_of(old); \
}
CUPY_ATOMIC(atomicMax, fmaxf, float, int, __float_as_int, __int_as_float)
CUPY_ATOMIC(atomicMin, fminf, float, int, __float_as_int, __int_as_float)
CUPY_ATOMIC(atomicMax, fmax, double, unsigned long long, __double_as_longlong, __longlong_as_double)
CUPY_ATOMIC(atomicMin, fmin, double, unsigned long long, __double_as_longlong, __longlong_as_double)
#undef CUPY_ATOMIC
__device__ inline float16 atomicAdd(float16 *address, float16 value) {
    return float16(atomicAdd(reinterpret_cast<__half *>(address), value.raw()));
}
"""

_NAMES = {
    "?": "bool",
    "b": "signed char",
    "h": "short",
    "i": "int",
    "l": "long long",
    "q": "long long",
    "B": "unsigned char",
    "H": "unsigned short",
    "I": "unsigned int",
    "L": "unsigned long long",
    "Q": "unsigned long long",
    "e": "float16",
    "f": "float",
    "d": "double",
    "F": "complex<float>",
    "D": "complex<double>",
}


def type_name(dtype: np.dtype) -> str:
    """Return the C++ name of a dtype. Raises TypeError for a dtype that no kernel accepts."""
    try:
        return _NAMES[np.dtype(dtype).char]
    except KeyError:
        raise TypeError(f"kernels do not support elements of dtype {dtype}") from None


def prelude(dtypes: Iterable[np.dtype]) -> str:
    """Return the code that precedes a generated kernel with arguments of these ``dtypes``."""
    kinds = {np.dtype(dtype).char for dtype in dtypes}
    half = '#include "cupy/float16.cuh"\n' if "e" in kinds else ""
    # The complex headers take 1.5 s, so they are included only if needed.
    numbers = '#include "cupy/complex.cuh"\n' if kinds & {"F", "D"} else ""
    return half + numbers + '#include "cupy/arrays.cuh"\n'


HEADERS = (
    THRUST_COMPLEX,
    ("cupy/complex.cuh", COMPLEX),
    ("cupy/float16.cuh", HALF),
    ("cupy/math_constants.h", CONSTANTS),
    ("cupy/arrays.cuh", ARRAYS),
    # CuPy's header includes float16 too. It is a separate header because compiling fp16 takes time.
    ("cupy/carray.cuh", '#pragma once\n#include "cupy/float16.cuh"\n#include "cupy/arrays.cuh"\n'),
    ("cupy/atomics.cuh", ATOMICS),
)


def quoted(text: str, name: str) -> str:
    """Return a user's code for generated source, so that messages count the user's own lines."""
    return f'\n#line 1 "{source_path(text, name)}"\n{text}\n#line 1 "generated by CuPy"\n'


def pack_array(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> bytes:
    """Return the bytes of a ``CArray`` kernel parameter."""
    return np.array([pointer, size, *_room(shape), *_room(strides)], np.int64).tobytes()


def pack_indexer(shape: tuple[int, ...], size: int) -> bytes:
    """Return the bytes of a ``CIndexer`` kernel parameter."""
    return np.array([size, *_room(shape), *(0 for _ in _room(shape))], np.int64).tobytes()


def _room(values: tuple[int, ...]) -> tuple[int, ...]:
    """Return at least one value, since C++ has no arrays of length 0."""
    return values or (0,)
