"""JAX programs as compiled loops: jaxprs through LLVM for the CPU, or as CUDA C++ for a GPU.

>>> import jaxpile
>>> @jaxpile.jit
... def density(salinity, temperature):
...     return 1000.0 + 0.8 * salinity - 0.2 * temperature
>>> density(35.0, 10.0)
>>> print(density.lower(35.0, 10.0).as_text("llvm"))

One translator per primitive, in a registry that can be extended; what has no translator is
refused by name.
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
    """Import parts when first used: ``import jaxpile`` alone imports neither JAX nor LLVM."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
