"""``cupyx.scipy.signal.windows``: window functions as device arrays."""

from __future__ import annotations

import scipy.signal.windows

from .._routines import functions

_NAMES = """
barthann bartlett blackman blackmanharris bohman boxcar chebwin cosine exponential flattop gaussian
general_cosine general_gaussian general_hamming get_window hamming hann kaiser nuttall parzen taylor
triang tukey
"""

_FUNCTIONS = functions(
    _NAMES, scipy.signal.windows, "cupyx.scipy.signal.windows", first_on_device=False
)
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
