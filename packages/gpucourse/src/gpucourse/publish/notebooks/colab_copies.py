"""Copies of the notebooks for Google Colab, in ``lectures/colab/``.

A copy is the released notebook with an additional first cell that sets Colab up, and with links
and pictures that work there. Everything else is the same, including nbgrader's metadata, so a
project that was solved on Colab is graded like any other.
"""

from __future__ import annotations

import copy
import posixpath
import re
from pathlib import Path
from urllib.parse import quote

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from gpucourse.course.released import digest
from gpucourse.publish.notebooks.derive import cell_id
from gpucourse.publish.source.links import relinked

FOLDER = Path("lectures/colab")
#: Folder of the course on Colab's machine.
PLACE = "/content/gpu-course"

_SET_UP = """\
# On Google Colab: gets the course and what it needs. Anywhere else this does nothing.
import sys

if "google.colab" in sys.modules:
    !test -d {place} || git clone --quiet --depth 1 {url} {place}
    for package in "virtualgpu", "gpustandins", "gpucourse":
        sys.path.insert(0, f"{place}/packages/{{package}}/src")
    from gpucourse.notebook import colab

    colab.set_up()"""

_ABOUT = """\
[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({here})

This is the copy for Google Colab. Run the next cell first; it takes about a minute. Colab forgets
its machine when you leave, so keep what you write: *File › Save a copy in Drive*."""
_GRADE = """

The grader wants the notebook as a file on Colab's machine: *File › Download › Download .ipynb*,
then upload it (the folder symbol at the left), then run `!gpucourse grade "{name}"`."""

_PICTURES = (".svg", ".png", ".jpg", ".gif")


def colab_copies(released: dict[Path, NotebookNode], repository: str) -> dict[Path, NotebookNode]:
    """Return the copies of the notebooks in ``lectures/`` and ``projects/``: path → notebook.

    ``released`` maps paths from the repository's root to notebooks. ``repository`` is its address
    on GitHub.
    """
    paths = {
        path: copy_path(path) for path in released if path.parts[0] in ("lectures", "projects")
    }
    return {
        target: _copy(released[path], path, repository, paths)
        for path, target in sorted(paths.items())
    }


def copy_path(path: Path) -> Path:
    """Return the copy's path: ``lectures/colab/ID.ipynb``, or ``project_ID.ipynb`` there."""
    name = path.name if path.parts[0] == "lectures" else f"project_{path.name}"
    return FOLDER / name


def colab_link(repository: str, path: Path) -> str:
    """Return the address at which Colab opens a notebook of the repository."""
    slug = repository.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{slug}/blob/main/{quote(path.as_posix())}"


def _copy(notebook: NotebookNode, path: Path, repository: str, paths: dict) -> NotebookNode:
    made = copy.deepcopy(notebook)
    id = made.metadata["gpucourse"]["id"]
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = _relinked(cell.source, path, repository, paths)
    here = colab_link(repository, paths[path])
    about = _ABOUT.format(here=here)
    if path.parts[0] == "projects":
        about += _GRADE.format(name=paths[path].name)
    set_up = _SET_UP.format(place=PLACE, url=repository)
    made.cells[1:1] = [
        new_markdown_cell(about, id=cell_id(id, "about-colab")),
        new_code_cell(set_up, id=cell_id(id, "set-up-colab")),
    ]
    # These metadata make Colab offer a GPU.
    made.metadata["accelerator"] = "GPU"
    made.metadata["colab"] = {"gpuType": "T4", "provenance": []}
    made.metadata["gpucourse"]["released"] = digest(made)
    return made


def _relinked(text: str, path: Path, repository: str, paths: dict) -> str:
    """Point relative links in Markdown to Colab's copies, or to the repository on the web."""

    def moved(target: str) -> str:
        if re.match(r"[a-z][a-z+.-]*:|#", target):
            return target
        name, _, place = target.partition("#")
        there = Path(posixpath.normpath((path.parent / name).as_posix()))
        if there in paths:
            return colab_link(repository, paths[there])  # Colab names headings differently
        if there.suffix in _PICTURES:
            raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")
            return f"{raw}/main/{quote(there.as_posix())}"
        return f"{repository}/blob/main/{quote(there.as_posix())}{f'#{place}' if place else ''}"

    return relinked(text, moved)
