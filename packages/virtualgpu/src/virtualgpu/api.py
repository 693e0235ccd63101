"""Public interface for programs built upon the virtual GPU.

It has what they import beside :mod:`virtualgpu` itself, its errors, findings, sources and
processors: observers, devices, arguments of kernels, compilers.

A notebook needs none of it. The modules behind these names may be moved and renamed; the names stay
within a minor version. The list is ``api.pyi``.
"""

from __future__ import annotations

from virtualgpu.lazy_names import attach

__getattr__, __dir__, __all__ = attach(globals())
