"""What a compiler's error comes down to.

Numba's errors run to hundreds of lines, nearly all of them about the compiler. A learner needs the
line that is about the kernel.
"""

from __future__ import annotations

import re

# Colours, and where in this process's memory a function happens to be.
_IRRELEVANT = re.compile(r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+")
# Lines about the compiler's own progress, or about a source that it cannot show.
_NOISE = re.compile(
    r"\s*(Failed in |During: |File |<source missing|There (is|are) \d+ candidate"
    r"|- Of which |Overload |With argument|No match|\^|raised from)"
)
_PLAIN_FUNCTION = re.compile(r"Untyped global name '(\w+)'.*<class 'function'>", re.DOTALL)
_UFUNC = re.compile(r"<ufunc '(\w+)'>")
_LINES, _LENGTH = 3, 300


def gist(error: Exception) -> str:
    """The one to three lines of `error` that are about the code, in 300 characters at most."""
    text = _IRRELEVANT.sub("", str(error))
    if plain := _PLAIN_FUNCTION.search(text):
        return (f"'{plain[1]}' is an ordinary Python function, and kernels can call only compiled "
                "ones: decorate it with @cuda.jit(device=True)")
    if isinstance(error, KeyError) and (ufunc := _UFUNC.search(text)):
        return f"NumPy's function '{ufunc[1]}' does not exist in kernels: use Python's or math's"
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if line and not _NOISE.match(line)]
    told = f"{type(error).__name__}: " + (" ".join(lines[:_LINES]) or "no message")
    return told if len(told) <= _LENGTH else told[: _LENGTH - 1] + "…"


def is_compile_error(error: Exception) -> bool:
    """Whether an exception out of a launch comes from the compiler, not from the device."""
    module = type(error).__module__
    # The compiler also lets slip KeyError and the like; drivers have classes of their own.
    return module == "builtins" or module.endswith("core.errors")
