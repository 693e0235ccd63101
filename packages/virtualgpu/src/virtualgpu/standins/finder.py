"""Whether ``import cupy`` finds CuPy or its stand-in.

:func:`install` puts a finder first on ``sys.meta_path`` and sets aside what is imported already
(real CuPy imports without a driver, and fails when it is used); :func:`remove` undoes both, so
that ``sys.modules`` is as if the stand-ins had never been. They come back as the same modules at
the next :func:`install`: arrays made before keep their class.

Nothing happens where there is a GPU: then the real packages work, or their absence is told by
Python itself.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent

#: The packages that have a stand-in.
NAMES = ("cudf", "cupy", "cupyx", "pycuda")


#: A stand-in that another one is imported by.
TOGETHER = {"cupy": ("cupyx",), "cupyx": ("cupy",), "cudf": ("cupy", "cupyx"), "pycuda": ()}


def chosen(names: Iterable[str]) -> list[str]:
    """The packages ``names`` and those that come with them. Raises ValueError for another name."""
    names = list(names)
    for name in names:
        if name not in NAMES:
            raise ValueError(f"there is no stand-in for {name!r}: there are {', '.join(NAMES)}")
    return sorted({*names, *(other for name in names for other in TOGETHER[name])})


class StandInFinder(MetaPathFinder):
    """Finds the stand-ins of ``names`` in this folder, and their modules nowhere else."""

    names: Collection[str] = NAMES

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        if package not in self.names:
            return None
        if not rest:
            return PathFinder.find_spec(name, [str(FOLDER)])
        if not any(_is_ours(entry) for entry in path or ()):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            raise ModuleNotFoundError(
                f"the stand-in for {package}, which answers because there is no GPU, has no "
                f"module {name}; docs/standins.md lists what it has",
                name=name,
            )
        return spec


_finder = StandInFinder()
_set_aside: dict[str, ModuleType] = {}  # modules of the real packages
_ours: dict[str, ModuleType] = {}  # modules of the stand-ins, while they are switched off


def is_installed() -> bool:
    """Whether the stand-ins can be imported now."""
    return _finder in sys.meta_path


def install(names: Collection[str] | None = None) -> list[str]:
    """Have the stand-ins imported from now on; :func:`virtualgpu.activation.use_standins` asks
    first whether there is a GPU. ``names``: those of :data:`NAMES` that are to answer, by default
    all.

    Returns the packages that were imported before and are replaced in ``sys.modules`` now. Names
    bound to them (``import cupy as cp``) still hold the package that needs a GPU.
    """
    if is_installed():
        return []
    _finder.names = NAMES if names is None else chosen(names)
    _set_aside.update(_take_modules())
    sys.modules.update(_ours)
    _ours.clear()
    sys.meta_path.insert(0, _finder)
    return sorted({name.partition(".")[0] for name in _set_aside})


def remove() -> None:
    """Undo :func:`install`: the finder is gone and ``sys.modules`` is as it was."""
    if is_installed():
        sys.meta_path.remove(_finder)
        _ours.update(_take_modules())
        sys.modules.update(_set_aside)
        _set_aside.clear()


def replaced(module: ModuleType) -> bool:
    """Whether ``module`` is one of a real package whose stand-in answers now."""
    return any(module is other for other in _set_aside.values())


def _take_modules() -> dict[str, ModuleType]:
    """Remove the packages and all their modules from ``sys.modules``; they are returned."""
    names = [name for name in sys.modules if name.partition(".")[0] in _finder.names]
    return {name: sys.modules.pop(name) for name in names}


def _is_ours(folder: str) -> bool:
    return Path(folder).is_relative_to(FOLDER)
