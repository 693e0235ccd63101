"""Header folders: CUDA's own, and the C library's headers that NVRTC lacks.

NVRTC compiles only device code and has no host headers. Code written for nvcc includes
``<stdio.h>`` or ``<stdint.h>`` for declarations that the device compiler has anyway.
:data:`HOST_HEADERS` provides these headers.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_INTEGERS = """
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long int64_t; typedef unsigned long uint64_t;
typedef long intptr_t; typedef unsigned long uintptr_t;
typedef long intmax_t; typedef unsigned long uintmax_t;
"""
_LIMITS = """
#define CHAR_BIT 8
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807L
#define LONG_MIN (-9223372036854775807L - 1)
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-9223372036854775807LL - 1)
"""
_FLOATS = """
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
"""
_CONSTANTS = """
#define M_PI 3.14159265358979323846
#define M_E 2.71828182845904523536
#define M_SQRT2 1.41421356237309504880
#define M_PI_2 1.57079632679489661923
#define M_LN2 0.69314718055994530942
#define INFINITY (__int_as_float(0x7f800000))
#define NAN (__int_as_float(0x7fffffff))
"""


def _guarded(name: str, text: str) -> tuple[str, str]:
    return name, f"#pragma once\n{text}"


#: (name, text) of headers that nvcc takes from the host compiler.
HOST_HEADERS = tuple(
    _guarded(name, text)
    for names, text in (
        (("stdint.h", "inttypes.h"), _INTEGERS),
        (
            ("cstdint",),
            "#include <stdint.h>\nnamespace std { using ::int8_t; using ::uint8_t;"
            " using ::int16_t; using ::uint16_t; using ::int32_t; using ::uint32_t;"
            " using ::int64_t; using ::uint64_t; }\n",
        ),
        (("limits.h", "climits"), _LIMITS),
        (("float.h", "cfloat"), _FLOATS),
        (("math.h", "cmath"), _CONSTANTS),
        (
            (
                "stdio.h",
                "cstdio",
                "stdlib.h",
                "cstdlib",
                "string.h",
                "cstring",
                "assert.h",
                "cassert",
                "stddef.h",
                "cstddef",
                "stdbool.h",
            ),
            "",
        ),
    )
    for name in names
)

#: ``<thrust/complex.h>``: CCCL's own version needs host headers. Its complex numbers are libcu++'s.
THRUST_COMPLEX = (
    "thrust/complex.h",
    """#pragma once
#include <cuda/std/complex>
namespace thrust {
using cuda::std::complex; using cuda::std::abs; using cuda::std::arg; using cuda::std::norm;
using cuda::std::conj; using cuda::std::proj; using cuda::std::polar; using cuda::std::exp;
using cuda::std::log; using cuda::std::log10; using cuda::std::pow; using cuda::std::sqrt;
using cuda::std::sin; using cuda::std::cos; using cuda::std::tan; using cuda::std::sinh;
using cuda::std::cosh; using cuda::std::tanh; using cuda::std::asin; using cuda::std::acos;
using cuda::std::atan; using cuda::std::asinh; using cuda::std::acosh; using cuda::std::atanh;
}
""",
)


@cache
def include_paths() -> tuple[str, ...]:
    """Return the folders of the CUDA headers in the installed wheels.

    These are ``cuda_fp16.h``, ``cooperative_groups.h``, CCCL's ``cub/`` and ``cuda/std/`` and
    others.
    """
    from cuda import pathfinder

    found = []
    for library in ("cudart", "cccl", "nvrtc", "curand", "nvcc"):
        try:
            located = pathfinder.locate_nvidia_header_directory(library)
        except (ValueError, KeyError, RuntimeError):
            continue
        if located is not None and Path(located.abs_path).is_dir():
            found.append(str(located.abs_path))
    return tuple(dict.fromkeys(found))
