"""Compiler from JAX programs to loops: LLVM code for the CPU, or CUDA C++ for a GPU.

>>> import jaxpile
>>> @jaxpile.jit
... def density(salinity, temperature):
...     return 1000.0 + 0.8 * salinity - 0.2 * temperature
>>> density(35.0, 10.0)
>>> print(density.lower(35.0, 10.0).as_text("llvm"))

Each primitive has one translator, in a registry that you can extend. A primitive without a
translator raises an error that names it.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_WHERE = {
    "jit": "jaxpile.jitted",
    "Registry": "jaxpile.registry",
    "Translator": "jaxpile.registry",
    "translates": "jaxpile.registry",
    "default_registry": "jaxpile.primitives",
    "JaxpileError": "jaxpile.errors",
    "UnsupportedPrimitive": "jaxpile.errors",
    "UnsupportedType": "jaxpile.errors",
    "UnsupportedProgram": "jaxpile.errors",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str):
    """Import submodules at their first use; ``import jaxpile`` imports neither JAX nor LLVM."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
