"""Public interface for programs that are built on the virtual GPU.

It contains the names that such programs need in addition to :mod:`virtualgpu` itself and its
modules ``errors``, ``findings``, ``sources`` and ``processors``: observers, devices, kernel
arguments and compilers.

A notebook needs none of them. The modules that define these names may be moved and renamed, but
the names stay the same within a minor version. ``api.pyi`` lists them.
"""

from __future__ import annotations

from virtualgpu.lazy_names import attach

__getattr__, __dir__, __all__ = attach(globals())
