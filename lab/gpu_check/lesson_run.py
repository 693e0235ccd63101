"""Run of a lesson's solution, cell by cell in this process, with the results of each cell.

    python -m lab.gpu_check.lesson_run 06_numba_cuda FOLDER --sizes virtual --record

It needs no Jupyter, because it reads the notebook as JSON. With IPython the cells run in its
shell, as in a notebook; otherwise they are executed one after the other. The machine determines
the device, as for a learner; ``CUDA_VISIBLE_DEVICES=""`` hides a GPU.

The output is ``FOLDER/run.json``, one ``.npy`` file for each array that a cell created or changed,
and with ``--record`` every launch of the virtual GPU (:mod:`lab.gpu_check.recorder`).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import sys
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpucourse.course.checkout import checkouts
from lab.gpu_check import jobs
from virtualgpu.memory import global_memory

#: Arrays larger than this are compared only by their digest, others number by number.
KEPT = 64 << 20
_MARKER = re.compile(r'^# %% (?!\[)(?:.*? )?id="([\w-]+)"(.*)$', re.MULTILINE)


@dataclass
class Ran:
    """Result of one cell: its error (``expected`` or not), its checks and its arrays.

    ``arrays`` has, by name, the dtype, the shape, a digest and the file if there is one.
    """

    name: str
    error: str = ""
    message: str = ""
    where: str = ""
    expected: list[str] = field(default_factory=list)
    outcomes: list[tuple[str, bool, str]] = field(default_factory=list)
    warned: str = ""
    seconds: float = 0.0
    arrays: dict[str, tuple] = field(default_factory=dict)


def find_root() -> Path:
    """Return the checkout that contains the working directory or this file."""
    for folder in checkouts(Path.cwd(), Path(__file__).parent):
        return folder
    raise FileNotFoundError(
        "course/course.toml is missing: run this command inside the course's checkout"
    )


def source_of(root: Path, id: str) -> Path:
    """Return the path of a lesson's source."""
    (path,) = root.glob(f"course/*/{id}/notebook.py")
    return path


def lessons(root: Path) -> list[str]:
    """Return the ids of all lessons with a solution, in the order of the course."""
    from gpucourse.course.registry import load_course

    return [
        lesson.id
        for lesson in load_course(root).lessons
        if (root / "solutions" / f"{lesson.id}.ipynb").is_file()
    ]


def cells(root: Path, id: str) -> list[tuple[str, list[str], str]]:
    """Return the solution's code cells: (name, errors that it may raise, source)."""
    known = {}
    for name, rest in _MARKER.findall(source_of(root, id).read_text(encoding="utf-8")):
        wanted = re.search(r'raises=("[^"]*"|\[[^]]*\])', rest)
        digest = hashlib.sha256(f"{id}/{name}".encode()).hexdigest()[:16]  # notebooks.cell_id
        known[digest] = name, re.findall(r'"(\w+)"', wanted[1]) if wanted else []
    notebook = json.loads((root / "solutions" / f"{id}.ipynb").read_text(encoding="utf-8"))
    found = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            name, raises = known.get(cell["id"], (f"cell {number}", []))
            found.append((name, raises, "".join(cell["source"])))
    return found


# -- execution ----------------------------------------------------------------------------------


class _Plain:
    """Executor of cells without IPython."""

    def __init__(self):
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, name: str, source: str) -> BaseException | None:
        import linecache

        if source.startswith("%load_ext gpucourse"):
            self._prepare()
            source = source.partition("\n")[2]
        filename = f"<{name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        try:
            exec(compile(source, filename, "exec", dont_inherit=True), self.names)
        except Exception as error:
            return error
        return None

    def _prepare(self) -> None:
        """Do the setup of ``%load_ext gpucourse``, except for the shell."""
        from gpucourse.adapters import without_pycuda
        from gpucourse.notebook import extension
        from gpucourse.system.device import device
        from virtualgpu.awkward.kernels import mend_iteration

        for variable, value in extension.ENVIRONMENT.items():
            os.environ.setdefault(variable, value)
        mend_iteration()
        if device().virtual:
            extension.prepare_virtual()
        else:
            without_pycuda.offer()


class _Shell:
    """Executor of cells in an IPython shell."""

    def __init__(self):
        from IPython.core.interactiveshell import InteractiveShell

        self._shell = InteractiveShell.instance()
        self._shell.colors = "nocolor"
        self.names = self._shell.user_ns

    def run(self, name: str, source: str) -> BaseException | None:
        result = self._shell.run_cell(source, store_history=True)
        return result.error_before_exec or result.error_in_exec


def open_shell() -> _Plain | _Shell:
    try:
        return _Shell()
    except ImportError:
        return _Plain()


def run(
    root: Path,
    id: str,
    folder: Path,
    *,
    sizes: str = "own",
    record: bool = False,
    tell=lambda ran: None,
) -> list[Ran]:
    """Run every cell; an error does not stop the run.

    ``sizes="virtual"`` uses the lessons' sizes for the virtual GPU on every device, so that two
    devices compute the same.
    """
    from gpucourse.exercises import waiting
    from gpucourse.exercises.outcomes import Outcome
    from gpucourse.system import device as devices

    folder.mkdir(parents=True, exist_ok=True)
    current = ""
    if sizes == "virtual":
        devices.pick = lambda *, gpu, virtual: virtual
    if record:
        from lab.gpu_check.recorder import RecordingDevice, into_folder
        from virtualgpu.devices import set_current

        set_current(RecordingDevice(into_folder(folder / "launches", lambda: f"{id}: {current}")))
    outcomes: list[tuple[str, bool, str]] = []

    def noted(shown: object, place: object = None) -> None:
        if isinstance(shown, Outcome):
            outcomes.append((shown.name, shown.passed, shown.message))

    waiting.show = noted
    shell, seen, done = open_shell(), {}, []
    os.chdir(root / "solutions")
    for name, raises, source in cells(root, id):
        current = name
        ran = Ran(name, expected=raises)
        outcomes.clear()
        began = time.monotonic()
        printed, complained = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(complained),
            warnings.catch_warnings(),
        ):
            error = shell.run(name, source)
        ran.seconds = round(time.monotonic() - began, 3)
        ran.outcomes, ran.warned = list(outcomes), complained.getvalue().strip()[-400:]
        if error is not None:
            ran.error, ran.message = type(error).__name__, str(error).strip()[:600]
            ran.where = _last_lines(error)
        ran.arrays = _new_arrays(shell.names, seen, folder, len(done))
        done.append(ran)
        tell(ran)
        write(folder, id, done)
    return done


def _last_lines(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)
    )


def write(folder: Path, id: str, done: list[Ran]) -> None:
    from gpucourse.system.device import device

    document = {"lesson": id, "device": str(device()), "cells": [asdict(ran) for ran in done]}
    (folder / "run.json").write_text(json.dumps(document, indent=1))


def read(folder: Path) -> tuple[str, list[Ran]]:
    """Read the device and the cells of a run; no cells if it never began."""
    try:
        document = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError):
        return "", []
    return document["device"], [Ran(**cell) for cell in document["cells"]]


# -- arrays -------------------------------------------------------------------------------------


def _new_arrays(names: dict, seen: dict[str, str], folder: Path, number: int) -> dict[str, tuple]:
    """Return the arrays of a namespace that have changed since the last cell."""
    import numpy as np

    found = {}
    for name, value in list(names.items()):
        if name.startswith("_"):
            continue
        try:
            parts = host_arrays(value)
        except Exception as error:  # a GPU after a fatal error returns no more data
            found[name] = (type(error).__name__, [], "", "")
            continue
        for suffix, array in parts.items():
            label = name + suffix
            array = np.ascontiguousarray(array)
            digest = hashlib.sha256(array.tobytes() + str(array.dtype).encode()).hexdigest()[:16]
            if seen.get(label) == digest:
                continue
            seen[label] = digest
            file = ""
            if array.nbytes <= KEPT:
                file = f"{number:03}-{label}.npy".replace("/", "-")
                np.save(folder / file, array, allow_pickle=False)
            found[label] = (str(array.dtype), list(array.shape), digest, file)
    return found


def host_arrays(value: Any) -> dict[str, Any]:
    """Return the arrays in a variable's value as NumPy arrays, by a suffix to its name.

    These are NumPy, Numba, CuPy and JAX arrays, buffers of Awkward Arrays and columns of tables,
    if they have at least two numbers.
    """
    import numpy as np

    module = type(value).__module__.partition(".")[0]
    if module == "awkward" and hasattr(value, "layout"):
        ak = sys.modules["awkward"]
        _, _, buffers = ak.to_buffers(ak.to_packed(ak.to_backend(value, "cpu")))
        return {f".{key}": array for key, array in buffers.items()}
    if module == "cudf" and hasattr(value, "to_pandas"):
        table = value.to_pandas()
        columns = table.items() if hasattr(table, "columns") else [("", table)]
        return {
            f".{key}": column.to_numpy() for key, column in columns if column.dtype.kind in "biufc"
        }
    array = None
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__cuda_array_interface__"):
        array = next(
            getattr(value, method)()
            for method in ("copy_to_host", "get", "__array__")
            if hasattr(value, method)
        )
    elif module.startswith("jax") and hasattr(value, "__array__") and hasattr(value, "dtype"):
        array = np.asarray(value)
    if not isinstance(array, np.ndarray) or array.dtype.hasobject or array.size < 2:
        return {}
    return {"": array}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lesson")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", choices=("own", "virtual"), default="own")
    parser.add_argument("--record", action="store_true")
    parser.add_argument(
        "--poison",
        type=int,
        default=global_memory.POISON,
        help="the byte in uninitialised device memory",
    )
    given = parser.parse_args()
    global_memory.POISON = given.poison
    jobs.end_with_parent()
    os.environ.setdefault("MPLBACKEND", "agg")

    def tell(ran: Ran) -> None:
        bad = f"  {ran.error}: {ran.message.splitlines()[0] if ran.message else ''}"
        print(
            f"{ran.seconds:7.2f} s  {ran.name}{bad if ran.error else ''}",
            file=sys.__stdout__,
            flush=True,
        )

    run(
        find_root(),
        given.lesson,
        given.folder.resolve(),
        sizes=given.sizes,
        record=given.record,
        tell=tell,
    )


if __name__ == "__main__":
    main()
