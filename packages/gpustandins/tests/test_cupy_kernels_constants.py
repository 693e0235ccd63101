"""The constants that CuPy's headers put before the kernels that it writes."""

from __future__ import annotations

import numpy as np
import pytest


def test_infinity_and_nan_have_cudas_names(cp):
    """CuPy puts these four of CUDA's ``math_constants.h`` before the kernels that it writes."""
    limits = cp.ElementwiseKernel(
        "int8 k",
        "float64 double_, float32 single",
        "double_ = k ? CUDART_INF : CUDART_NAN; single = k ? CUDART_INF_F : CUDART_NAN_F",
        "limits",
    )
    for got in limits(cp.asarray([1, 0], np.int8)):
        np.testing.assert_array_equal(got.get(), [np.inf, np.nan])
    least = cp.ReductionKernel(
        "float64 x", "float64 y", "x", "min(a, b)", "y = a", "CUDART_INF", "least"
    )
    assert float(least(cp.zeros(0))) == np.inf


def test_pi_has_the_name_that_cupy_gives_it(cp):
    """Beside its arrays; the other constants of CUDA's header come with that header alone."""
    area = cp.ElementwiseKernel("T r", "T area", "area = M_PI * r * r", "area")
    assert area(cp.asarray([1.0, 2.0])).get().tolist() == [np.pi, 4 * np.pi]
    unknown = cp.ElementwiseKernel("T r", "T x", "x = CUDART_PI * r", "unknown")
    with pytest.raises(Exception, match="CUDART_PI"):
        unknown(cp.ones(1))
    both = cp.ElementwiseKernel(
        "T r",
        "T x",
        "x = r < CUDART_INF ? CUDART_PI : 0",
        "both",
        preamble="#include <math_constants.h>",
    )
    assert float(both(cp.ones(1))[0]) == np.pi
    raw = cp.RawKernel(
        """#include <cupy/math_constants.h>
        extern "C" __global__ void no(double *x) { *x = -CUDART_INF; }""",
        "no",
    )
    raw((1,), (1,), (x := cp.zeros(1),))
    assert float(x[0]) == -np.inf
