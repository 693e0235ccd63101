"""What a compiler's error comes down to, in a line."""

from __future__ import annotations

from gpucourse.exercises.reasons import is_compilers, places, shortened, told


def gist(error: Exception) -> str:
    """The line of the learner's that cannot be compiled, the reason and the mend."""
    return shortened(": ".join([*map(str, places(error)[-1:]), " ".join(told(error))]))


def is_compile_error(error: Exception) -> bool:
    """Whether an exception out of a launch comes from the compiler, not from the device."""
    # The compiler also lets slip KeyError and the like; drivers have classes of their own.
    return type(error).__module__ == "builtins" or is_compilers(error)
