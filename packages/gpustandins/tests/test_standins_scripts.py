"""Scripts that a notebook's kernel starts find the stand-ins."""

from __future__ import annotations

import pytest

from fresh_python import said


@pytest.mark.parametrize(
    ("statement", "holds"),
    [
        ("import cupy", "'standins' in cupy.__file__ and cupy.arange(4).sum() == 6"),
        ("import awkward", "awkward.to_backend([1, 2], 'cuda').nbytes == 16"),
    ],
)
def test_an_import_of_a_script_finds_the_stand_in(statement: str, holds: str):
    assert said(f"{statement}\nprint({holds})") == "True"
