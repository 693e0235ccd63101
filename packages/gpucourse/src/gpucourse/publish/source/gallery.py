"""Gallery of pictures: a notebook without exercises, beside the lectures.

Its source is ``course/gallery.py``, written like a lecture's, and ``lectures/gallery.ipynb`` is
made from it. A course without that file has no gallery.
"""

from __future__ import annotations

from pathlib import Path

from gpucourse.course.registry import Course, Lecture
from gpucourse.publish.source.reader import Source, read_source

LESSON = Lecture(
    id="gallery",
    title="A gallery: seeing a kernel run",
    minutes=20,
    prerequisites=["a first kernel of your own"],
    objectives=[
        "ask for a card, a timeline, a map of memory, a tree or a replay of your own kernel",
        "point out in each what a good kernel does and a bad one does not",
    ],
)
#: Path of the notebook.
NOTEBOOK = Path("lectures") / "gallery.ipynb"


def read_gallery(course: Course) -> Source | None:
    """Return the gallery's source; None without one. Raises CourseError as lessons do."""
    path = course.root / "course" / "gallery.py"
    return read_source(course, LESSON, path) if path.is_file() else None
