"""What ``import virtualgpu`` offers by name."""

from __future__ import annotations

import virtualgpu
from virtualgpu import errors


def test_every_error_is_a_public_name():
    classes = {name: one for name, one in vars(errors).items()
               if isinstance(one, type) and issubclass(one, Exception)}
    assert classes["MemoryAccessError"] is virtualgpu.MemoryAccessError
    for name, one in classes.items():
        assert getattr(virtualgpu, name) is one and name in virtualgpu.__all__
    assert issubclass(virtualgpu.CompilationError, virtualgpu.VirtualGPUError)
