"""What tests of tiles share: a launch of cuTile's kernels on the virtual GPU."""

from __future__ import annotations

import pytest


@pytest.fixture
def launch(cp):
    import cuda.tile as ct

    def run(kernel, grid, *arguments):
        ct.launch(cp.cuda.get_current_stream(), grid, kernel, arguments)

    return run
