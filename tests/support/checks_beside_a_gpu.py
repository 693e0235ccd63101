"""Launches of a lecture's checks on a machine that seems to have a GPU.

``python checks_beside_a_gpu.py LECTURE`` writes a line of JSON for each exercise. The virtual
GPU's memory, CuPy and PyCUDA take the place of the real ones, but our packages see a machine with
a GPU: numba.cuda is not hooked and cuTile is not adapted. A launch that no check has redirected to
the virtual GPU reaches ``CUDADispatcher.call`` or the original ``cuda.tile.launch``. For kernels
that CuPy and PyCUDA launch there, the check must warn (``unstopped``, ``warned``).
"""

from __future__ import annotations

import functools
import json
import sys
from contextlib import suppress

import virtualgpu
from answers_of_a_kind import solution
from gpucourse.exercises import waiting
from gpucourse.exercises.checks import load_lesson
from virtualgpu import activation


def _pretend() -> list[str]:
    """Return the list to which kernels launched on the pretended GPU are added."""
    from numba.cuda.dispatcher import CUDADispatcher

    from virtualgpu.numba import hooks

    launched: list[str] = []
    launch = CUDADispatcher.call

    def on_the_gpu(dispatcher, arguments, configuration):
        launched.append(dispatcher.py_func.__name__)
        return launch(dispatcher, arguments, configuration)

    CUDADispatcher.call = on_the_gpu
    with suppress(ImportError):  # this function exists only on Linux
        _pretend_tiles(launched)
    hooks.is_active = activation.is_active = lambda: False
    virtualgpu.answers = activation.answers = virtualgpu.is_active = lambda: False
    return launched


def _pretend_tiles(launched: list[str]) -> None:
    import cuda.tile as tile

    from virtualgpu.driver import cutile

    launch = tile.launch

    def on_the_gpu(stream, grid, kernel, arguments):
        launched.append(kernel._pyfunc.__name__)
        return launch(stream, grid, kernel, arguments)

    tile.launch = on_the_gpu
    cutile.is_adapted = lambda: False


def _pretend_cpp() -> list[str]:
    """Return the list to which kernels in C++ launched by the lesson's libraries are added."""
    import cupy._kernels.launch
    import pycuda._function

    launched: list[str] = []

    def noted(call, name):
        @functools.wraps(call)
        def launch(function, *arguments, **options):
            launched.append(name(function))
            return call(function, *arguments, **options)

        return launch

    cupys, pycudas = cupy._kernels.launch.Function, pycuda._function.Function
    cupys.__call__ = noted(cupys.__call__, lambda function: function.name)
    pycudas._launch = noted(pycudas._launch, lambda function: function._kernel.entry)
    return launched


def _main(lecture: str) -> None:
    to, sys.stdout = sys.stdout, sys.stderr
    lesson = load_lesson(lecture)
    launched, unstopped = _pretend(), _pretend_cpp()
    said: list[str] = []
    waiting.show = lambda what, place=None: said.append(str(what))
    for name in lesson.exercises:
        answers = solution(lecture, name)
        for notes in (launched, unstopped, said):
            notes.clear()
        with waiting.waiting(name):
            heard = lesson.outcome(name, *answers)
        found = {
            "exercise": name,
            "launched": launched,
            "unstopped": unstopped,
            "warned": any("cannot stop it" in words for words in said),
            "passed": heard.passed,
            "says": str(heard),
        }
        print(
            json.dumps(found),
            file=to,
            flush=True,
        )


if __name__ == "__main__":
    _main(*sys.argv[1:])
