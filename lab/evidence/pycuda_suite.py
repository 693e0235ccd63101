"""PyCUDA's own tests on the stand-in that answers where there is no GPU.

    pip download pycuda==2026.1 --no-deps --no-binary :all:   PyCUDA's source, tests included
    python -m lab.evidence.pycuda_suite FOLDER                   every file (15 s of processor time)
    python -m lab.evidence.pycuda_suite FOLDER cumath            one of them, results not written

FOLDER is the source unpacked; nothing in it is built, and only its tests are imported. Every test
that does not pass is listed with its reason, and the run fails where one has none.
"""

from __future__ import annotations

import sys

from lab.evidence.own_tests import Suite, main

CONFTEST = """
import virtualgpu

virtualgpu.activate(force=True)
"""

# Why a test does not pass. Keys are parts of "area Class.test: message".
REASONS = {
    "curand_wrappers": "needs cuRAND, whose version it asks for",
    "DynamicModule": "needs cudadevrt: modules that are linked with the device's runtime",
    "DynamicSourceModule": "needs cudadevrt: kernels that launch kernels",
    "bitlog2": "memory pools keep freed blocks by their size, not in bins of rounded sizes",
    "bin_number": "memory pools keep freed blocks by their size, not in bins of rounded sizes",
    "pytools": "imports pytools, which PyCUDA needs and the stand-in does not",
}

SUITE = Suite(
    name="pycuda_suite",
    package="PyCUDA",
    tests="test/test_{area}.py",
    conftest=CONFTEST,
    areas=("cumath", "driver", "gpuarray"),
    # Arrays of 8 GiB; the virtual device has 2.
    not_run=("big_array",),
    reasons=REASONS,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, __doc__))
