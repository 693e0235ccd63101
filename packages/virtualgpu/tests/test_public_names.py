"""What ``import virtualgpu`` offers by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

import virtualgpu
import virtualgpu.api
from virtualgpu import errors


def test_every_error_is_a_public_name():
    classes = {
        name: one
        for name, one in vars(errors).items()
        if isinstance(one, type) and issubclass(one, Exception)
    }
    assert classes["MemoryAccessError"] is virtualgpu.MemoryAccessError
    for name, one in classes.items():
        assert getattr(virtualgpu, name) is one and name in virtualgpu.__all__
    assert issubclass(virtualgpu.CompilationError, virtualgpu.VirtualGPUError)


def test_each_name_of_the_api_is_there_and_none_is_imported_before_it_is_asked_for():
    lists = "import sys, virtualgpu.api as api; print(*sorted(sys.modules)); print(*dir(api))"
    loaded, names = subprocess.run(
        [sys.executable, "-c", lists], check=True, text=True, capture_output=True
    ).stdout.splitlines()
    assert set(virtualgpu.api.__all__) <= set(names.split())
    ours = {name for name in loaded.split() if name.startswith("virtualgpu")}
    assert ours == {"virtualgpu", "virtualgpu.api", "virtualgpu.lazy_names"}
    for name in virtualgpu.api.__all__:
        assert getattr(virtualgpu.api, name) is not None
    with pytest.raises(AttributeError, match=r"'virtualgpu\.api' has no attribute 'nothing'"):
        virtualgpu.api.nothing  # noqa: B018


def test_what_runs_tiles_and_native_code_is_imported_when_it_is_needed():
    """They are a tenth of what `activate()` would import, and most processes need neither."""
    lists = "import sys, virtualgpu; virtualgpu.activate(force=True); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", lists], check=True, text=True, capture_output=True
    ).stdout.split()
    assert "virtualgpu.launch.launch" in loaded
    assert not {"virtualgpu.tile.module", "virtualgpu.native.run"} & set(loaded)
