"""Stand-ins for libraries that cannot work without a GPU: CuPy, PyCUDA, cuDF.

The folders beside this file are packages that are imported **under the names of the originals**:
while the virtual GPU is active and the machine has no GPU, ``import cupy`` finds the folder
``cupy`` here, ahead of anything installed. Kernels go through the real compilers and run on the
virtual GPU; array and table work is NumPy's and pandas'. Where an original refuses, its stand-in
refuses too, and what a stand-in lacks raises NotImplementedError with the name.

:mod:`virtualgpu.standins.finder` switches them on and off.
"""

from __future__ import annotations


def only_as(name: str, imported_as: str) -> None:
    """Called by a stand-in with its name and ``__name__``: refuse any other way to import it.

    A stand-in imported as ``virtualgpu.standins.cupy`` would be a second CuPy beside the first,
    and could be had on a machine whose CuPy works. Raises ImportError.
    """
    if imported_as != name:
        raise ImportError(
            f"{imported_as} is the stand-in for {name} on machines without a GPU: call "
            f"virtualgpu.activate() and then `import {name}`, which finds the real package "
            "where there is a GPU",
            name=imported_as,
        )
