"""Stand-ins for libraries that cannot work without a GPU: CuPy, PyCUDA and cuDF.

The folders beside this file are packages that are imported **under the names of the originals**.
While the virtual GPU is active and the machine has no GPU, ``import cupy`` finds the folder
``cupy`` here, ahead of any installed CuPy. Kernels are compiled by the real compilers and run on
the virtual GPU. NumPy and pandas compute the array and table operations. A stand-in refuses what
the original refuses, and a name that it lacks raises NotImplementedError with that name.

:mod:`virtualgpu.standins.finder` turns the stand-ins on and off. It finds them through the entry
points in this distribution's metadata. The stand-ins import only the public names of virtualgpu
and :mod:`virtualgpu.standins.interface`.
"""

from __future__ import annotations

__version__ = "0.1.0"


def only_as(name: str, imported_as: str) -> None:
    """Raise ImportError if a stand-in is imported under any other name than the original's.

    Each stand-in calls this with its name and its ``__name__``. Imported as ``gpustandins.cupy``
    it would be a second CuPy beside the first, and it would also be available on a machine where
    the real CuPy works.
    """
    if imported_as != name:
        raise ImportError(
            f"{imported_as} is the stand-in for {name} on machines without a GPU: call "
            f"virtualgpu.activate() and then `import {name}`, which finds the real package "
            "where there is a GPU",
            name=imported_as,
        )
