"""The course's tools: the notebook extension, the build, the checks, grading and data.

Importing this package loads no large library. ``%load_ext gpucourse`` in the first cell of every
notebook sets the options that must be set before the array libraries start, and prints which
device runs the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Load the extension for ``%load_ext gpucourse``.

    The work is in :mod:`gpucourse.notebook.extension`.
    """
    from gpucourse.notebook import extension

    extension.load_ipython_extension(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Unload the extension for ``%unload_ext gpucourse``."""
    from gpucourse.notebook import extension

    extension.unload_ipython_extension(shell)


#: Functions for a project's test cells, which are defined in
#: :mod:`gpucourse.grading.testing.verbs`.
VERBS = (
    "call",
    "economy",
    "expect",
    "expect_close",
    "expect_equal",
    "expect_parallel",
    "launch",
    "launch_source",
    "launches",
    "operations",
    "secret_rng",
    "unwritten",
)

#: Pictures of a launch, with the module of :mod:`gpucourse.views` that draws each.
VIEWS = {
    "beside": "page",
    "compare": "launch.compare",
    "memory": "launch.memory",
    "race": "launch.race",
    "report": "launch.report",
    "timeline": "launch.timeline",
    "tree": "launch.levels",
}

#: Functions for a learner's work and progress, with the module that defines each.
WORK = {"progress": "course_map", "restore": "restoring", "save": "bundle"}


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that importing the package stays quick."""
    if name == "lesson":
        from gpucourse.exercises.lesson import lesson

        return lesson
    if name in VERBS:
        from gpucourse.grading.testing import verbs

        return getattr(verbs, name)
    if name in VIEWS:
        from importlib import import_module

        return getattr(import_module(f"gpucourse.views.{VIEWS[name]}"), name)
    if name in WORK:
        from importlib import import_module

        return getattr(import_module(f"gpucourse.learner.{WORK[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
