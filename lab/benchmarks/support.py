"""Import path of the modules that tests share, for benchmarks, trials and evidence.

Import it first: ``from lab.benchmarks import support  # noqa: F401``.
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = (
    "packages/virtualgpu/tests/support",
    "packages/gpustandins/tests/support",
    "packages/gpucourse/tests/support",
    "tests/support",
)

sys.path[:0] = [path for folder in FOLDERS if (path := str(REPOSITORY / folder)) not in sys.path]
