"""What the fork server of the oracles imports once, for all of them (3 s otherwise, each time)."""

import nbgrader.preprocessors
from numba import cuda
from numba.cuda import dispatcher

from gpucourse.grading import oracle
from virtualgpu.frontends import numba_cuda

__all__ = ["cuda", "dispatcher", "nbgrader", "numba_cuda", "oracle"]
