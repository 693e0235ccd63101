"""Trial launches of a learner's CUDA C++ kernels, for the checks of lectures.

This module is the counterpart of :mod:`.trials` for kernels in source strings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import require
from gpucourse.exercises.trials import in_words, require_unchanged, watched
from gpucourse.wording import a_or_an
from virtualgpu.api import HOST_HEADERS, CompilationError, Counters, source_path
from virtualgpu.errors import LaunchError

NAME = "kernel.cu"


def launched_cpp(
    source: object,
    name: str,
    blocks: int,
    threads: int,
    *arguments: object,
    seeds: Sequence[int] = (1, 2),
    reads: int = 0,
) -> list:
    """Compile a kernel, launch it on copies of the arguments, and return the copies.

    The first ``reads`` arguments are inputs: the check fails if the kernel changes one.

    The kernel runs on the virtual GPU even if the machine has a real one. The check fails with the
    compiler's message, with the findings of the checkers, or if another order of threads gives a
    different answer. ``source`` may lack ``extern "C"``, as it may for PyCUDA; its line numbers
    count from its own first line.
    """
    module = _compiled(source, name)
    what = in_words(name, blocks, threads, arguments)
    after = watched(lambda: _launch(module, name, blocks, threads, arguments), seeds, what)
    require_unchanged(arguments[:reads], after, lambda place: _parameter(source, name, place))
    return after


def _parameter(source: object, name: str, place: int) -> str:
    head = re.search(rf"\b{name}\s*\(([^)]*)\)", str(source))
    words = re.findall(r"\w+", head[1].split(",")[place]) if head else []
    return words[-1] if words else f"argument {place}"


def counted_cpp(
    source: object, name: str, blocks: int, threads: int, *arguments: object
) -> Counters:
    """Return the counters of one launch on copies."""
    module = _compiled(source, name)
    with virtualgpu.profile() as profile:
        _launch(module, name, blocks, threads, arguments)
    return profile.counters


def _compiled(source: object, name: str) -> virtualgpu.Module:
    require(
        isinstance(source, str),
        f"this is {a_or_an(type(source).__name__)}, not a string",
        look="pass the source itself, not the module or the kernel",
    )
    assert isinstance(source, str)
    if 'extern "C"' not in source:
        source = f'extern "C" {{\n#line 1 "{source_path(source, NAME)}"\n{source}\n}}\n'
    try:
        module = virtualgpu.Module.from_cuda(source, name=NAME, headers=HOST_HEADERS)
    except CompilationError as error:
        require(
            False,
            f"{error}",
            look="the first error, at the caret and just before it. Line 1 is the line of "
            "the opening quotes",
        )
    require(
        name in module.entries,
        f"this source has no kernel `{name}`. Kernels in it: {', '.join(module.entries) or 'none'}",
        look=f"`__global__ void {name}(…)`",
    )
    return module


def _launch(module, name: str, blocks: int, threads: int, arguments: Sequence) -> list:
    copies = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
    try:
        module.launch(name, blocks, threads, copies)
    except LaunchError as error:
        require(
            False,
            f"the parameters of `{name}` differ from the arguments that the exercise passes "
            f"to it: {str(error).partition(': ')[0]}",
            look=f"the parameters of `__global__ void {name}(…)`. Compare them with the exercise",
        )
    return copies
