"""One-line summary of a compiler's error."""

from __future__ import annotations

from gpucourse.exercises.reasons import LENGTH, is_compilers, places, told
from gpucourse.wording import shortened


def gist(error: Exception) -> str:
    """Return the learner's line that cannot be compiled, the reason and the fix."""
    text = ": ".join([*map(str, places(error)[-1:]), " ".join(told(error))])
    return shortened(text, LENGTH)


def is_compile_error(error: Exception) -> bool:
    """Return True if a launch's exception comes from the compiler and not from the device."""
    # The compiler also lets KeyError and other builtin exceptions escape; drivers raise their own.
    return type(error).__module__ == "builtins" or is_compilers(error)
