"""Stand-ins for libraries that cannot work without a GPU: CuPy, PyCUDA, cuDF.

The folders beside this file are packages that are imported **under the names of the originals**:
while the virtual GPU is active and the machine has no GPU, ``import cupy`` finds the folder
``cupy`` here, ahead of anything installed. Kernels go through the real compilers and run on the
virtual GPU; array and table work is NumPy's and pandas'. Where an original refuses, its stand-in
refuses too, and what a stand-in lacks raises NotImplementedError with the name.

:mod:`virtualgpu.standins.finder` switches them on and off. It finds them by the entry points in
this distribution's metadata. Of virtualgpu they import its public names and
:mod:`virtualgpu.standins.interface`, and nothing else.
"""

from __future__ import annotations

__version__ = "0.1.0"


def only_as(name: str, imported_as: str) -> None:
    """Refuse any other way to import a stand-in than by its name.

    A stand-in calls it with its name and ``__name__``. Imported as ``gpustandins.cupy`` it would be
    a second CuPy beside the first, and could be had on a machine whose CuPy works. Raises
    ImportError.
    """
    if imported_as != name:
        raise ImportError(
            f"{imported_as} is the stand-in for {name} on machines without a GPU: call "
            f"virtualgpu.activate() and then `import {name}`, which finds the real package "
            "where there is a GPU",
            name=imported_as,
        )
