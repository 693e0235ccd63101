"""The Python examples of the packages' pages and of the docs run as they are printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from virtualgpu.driver import library

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KERNELS = """
import warnings
warnings.simplefilter("ignore")  # that NumPy arrays are copied
import numpy as np
import virtualgpu
virtualgpu.activate()
from numba import cuda
@cuda.jit
def kernel(a, b):
    i = cuda.grid(1)
    if i < a.size:
        b[i] = a[i]
blocks, threads, a, b = 2, 32, np.ones(64), np.zeros(64)
"""
#: What a page's examples take as given, and what the page says of the result, by page.
PAGES = {
    "packages/virtualgpu/README.md": (KERNELS, "test_running_difference(); assert report.ok"),
    "packages/gpustandins/README.md": ("", "assert type(x).__module__.startswith('cupy')"),
    "packages/jaxpile/README.md": ("", ""),
    "docs/pytest.md": (
        KERNELS
        + """
import pytest
@cuda.jit
def too_far(out):
    out[cuda.threadIdx.x + 1] = 1
out = np.zeros(64)
""",
        "",
    ),
    "docs/large_arrays.md": (
        "",
        "assert 'block (189159, 32)' in str(found) and sample.launches[0].blocks == 2**25",
    ),
    "docs/virtualgpu.md": (
        """
import numpy as np
import virtualgpu
virtualgpu.activate()
import cupy
from numba import cuda
@cuda.jit
def plus(x, n):
    x[cuda.threadIdx.x] += n
@cuda.jit
def move(x, y):
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x]
class Launches:  # in place of a kernel that is written in Triton, which is not installed here
    def __getitem__(self, grid):
        return lambda *given, **named: [one.data_ptr() for one in given[:3]]
""",
        "assert report.ok is False",
    ),
}
#: Other kernels' names in a later example of the page.
BEFORE = {
    "class Tensor": """
x, y, out, n = (*(cupy.ones(8) for _ in range(3)), 8)
add = Launches()
""",
    "with virtualgpu.check(streams=True)": """
add, x, y = plus, cuda.to_device(np.ones(64)), cuda.device_array(64)
a, b = cuda.stream(), cuda.stream()
""",
}


@pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone")
@pytest.mark.parametrize("page", PAGES)
def test_examples_of_a_page_run_as_printed(page, tmp_path):
    given, then = PAGES[page]
    program = given
    for block in BLOCK.findall((ROOT / page).read_text()):
        program += next((code for start, code in BEFORE.items() if block.startswith(start)), "")
        program += block
    file = tmp_path / "program.py"  # cuTile reads a kernel's text
    file.write_text(f"{program}\n{then}\n")
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
