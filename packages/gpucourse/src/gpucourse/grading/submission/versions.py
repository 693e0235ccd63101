"""Versions of a project that a class received, and the version of a submission.

If a test or a text is corrected in the middle of a term, students must not be told that they
edited it: a cell that differs from the current notebook may equal an earlier version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from gpucourse.grading.submission.assignment import SOLUTION, role_of
from gpucourse.grading.submission.reading import source_of
from gpucourse.grading.verdict import digest
from gpucourse.system.atomic import PRIVATE, write_atomically

# Parts of a cell's grading data that a student could edit.
KEYS = ("points", "grade", "solution", "locked")


@dataclass(frozen=True)
class Version:
    """One notebook as it was handed out: its cells with a grade_id, and the text of the others."""

    cells: Mapping[str, NotebookNode]
    # The text of each other cell, stripped, and all prose in one string, because some editors split
    # it.
    texts: frozenset[str] = frozenset()
    prose: str = ""

    @classmethod
    def of(cls, notebook: NotebookNode) -> Version:
        others = [cell for cell in notebook.cells if not _grade_id(cell)]
        return cls(
            {_grade_id(cell): cell for cell in notebook.cells if _grade_id(cell)},
            frozenset(cell.source.strip() for cell in others),
            "\n\n".join(cell.source for cell in others if cell.cell_type != "code"),
        )

    @property
    def digest(self) -> str:
        return digest(
            *(
                part
                for name, cell in self.cells.items()
                for part in (
                    name,
                    cell.source,
                    *(str(cell.metadata.nbgrader.get(key)) for key in KEYS),
                )
            )
        )

    def likeness(self, found: Mapping[str, list[dict]]) -> tuple[int, int]:
        """Return a score of how well a submission's cells fit this version.

        The first number counts the unchanged cells that are not answers. The second is minus the
        number of this version's cells that are missing.
        """
        kept = sum(
            any(source_of(copy) == cell.source for copy in found.get(name, []))
            for name, cell in self.cells.items()
            if role_of(cell) != SOLUTION
        )
        return kept, -sum(name not in found for name in self.cells)


def _grade_id(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id") or "")


def origin(found: Mapping[str, list[dict]], versions: Sequence[Version]) -> Version:
    """Return the version from which a submission began; the first of equally good ones."""
    return max(versions, key=lambda version: version.likeness(found))


def others(folder: Path, name: str, today: NotebookNode) -> list[Version]:
    """Return the other versions of the notebook `name` that :func:`remember` has kept.

    The newest version comes first.
    """
    paths = sorted((folder / name).glob("*.ipynb"), key=lambda path: -path.stat().st_mtime)
    return [
        Version.of(nbformat.read(path, as_version=4))
        for path in paths
        if path.name != _file(Version.of(today))
    ]


def remember(folder: Path, name: str, notebooks: Iterable[NotebookNode]) -> None:
    """Keep each version that is not stored yet."""
    for notebook in notebooks:
        path = folder / name / _file(Version.of(notebook))
        if not path.exists():
            write_atomically(path, nbformat.writes(notebook, version=4), PRIVATE)


def _file(version: Version) -> str:
    return f"{version.digest[:16]}.ipynb"
