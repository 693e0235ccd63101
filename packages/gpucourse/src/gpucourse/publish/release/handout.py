"""Handout (``make release``): the learners' files as a zip file, without answers and hidden tests.

    python -m gpucourse.publish.release.handout build/release    # beside the wheels there

The handout contains the lectures and projects as the source generates them now (never a notebook
with work in it), pictures, the packages as wheels, locked requirements, and pages for learners.
The same source gives the same bytes. Before anything is written, every file, also inside wheels,
is searched for lines of solutions and hidden tests, and every link is checked.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpucourse.course.problems import CourseError, Problem
from gpucourse.course.projects import PACKAGES, read_projects
from gpucourse.course.regions import find_regions
from gpucourse.course.registry import load_course
from gpucourse.publish.notebooks import three_hours, welcome
from gpucourse.publish.notebooks.derive import notebook_text
from gpucourse.publish.notebooks.outputs import derive
from gpucourse.publish.release.environments import check_of_version, version
from gpucourse.publish.source.links import dead_links
from gpucourse.publish.source.reader import Source, read_course
from gpucourse.wording import many

#: Pages of docs/ that are for learners or that notebooks link to.
PAGES = (
    "faq.md",
    "glossary.md",
    "front_doors.ipynb",
    "large_arrays.md",
    "native_code.md",
    "projects.md",
    "standins.md",
    "views.md",
    "virtualgpu.md",
    "when_something_breaks.md",
)
#: path in the checkout → path in the handout
LICENCES = {
    "LICENSE": "LICENSE",
    "course/LICENSE": "LICENSE-teaching",
    "CITATION.cff": "CITATION.cff",
}
LOCKS = ("course", "gpu", "gpu12", "pycuda")
#: Date that build tools write if none is set, so that the result does not depend on the clock.
_DATE = (2020, 2, 2, 0, 0, 0)


def files(root: Path, wheels: Iterable[Path], *, graded: bool = False) -> dict[str, bytes]:
    """Return everything in the handout: path in it → bytes.

    With `graded`, its README does not mention where the answers are. Raises CourseError or
    FileNotFoundError.
    """
    project = read_projects(root)
    found: dict[str, bytes] = {wheel.name: wheel.read_bytes() for wheel in wheels}
    for path, text in derive(root).items():
        # The tutorial's notebook contains the projects' answers, in its reviews and set-up.
        if (
            path.parts[0] in ("lectures", "projects")
            and path.stem != three_hours.LESSON.id
            and (path.parts[1] != "colab")
        ):
            found[path.as_posix()] = text.encode()
    welcome_page = welcome.welcome_notebook(load_course(root), handout=True)
    found[welcome.NOTEBOOK.as_posix()] = notebook_text(welcome_page).encode()
    for path in [*sorted((root / "img").glob("*.svg")), *sorted((root / "img").glob("*.png"))]:
        found[f"img/{path.name}"] = path.read_bytes()
    for page in PAGES:
        found[f"docs/{page}"] = (root / "docs" / page).read_bytes()
    for name, place in LICENCES.items():
        found[place] = (root / name).read_bytes()
    for name in LOCKS:
        found[f"requirements/{name}.txt"] = (root / "requirements" / f"{name}.txt").read_bytes()
    page = (root / "docs" / "handout" / "README.md").read_text(encoding="utf-8")
    found["README.md"] = page.format(
        check=check_of_version(project),
        wheels=" ".join(f"./{wheel.name}" for wheel in wheels),
        version=version(root),
        contents=welcome.lessons_table(load_course(root)),
        whole="" if graded else f" The whole\n  course has them: {project.url}.",
    ).encode()
    return found


# --- what must not be in it -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Secret:
    """A few adjacent lines of a solution or of a hidden test, and their place."""

    place: str
    text: str


def secrets(sources: Iterable[Source]) -> list[Secret]:
    """Return every three adjacent lines of a solution or hidden test.

    Shorter ones count as a whole. Lines that the course shows elsewhere are left out, because they
    reveal nothing.
    """
    hidden: list[Secret] = []
    shown: list[str] = []
    for source in sources:
        for cell in source.cells:
            lines = cell.source.split("\n")
            regions = find_regions(cell.source)
            inside = {n for one in regions for n in range(one.begin, one.end + 1)}
            if "room" not in cell.tags:
                shown += [line for n, line in enumerate(lines) if n not in inside]
            for region in regions:
                place = f"{region.kind.lower()} of {source.lesson.id}, cell {cell.name}"
                kept = squeeze("\n".join(lines[region.begin + 1 : region.end])).split("\n")
                hidden += [
                    Secret(place, "\n".join(kept[n : n + 3])) for n in range(max(1, len(kept) - 2))
                ]
    everything = squeeze("\n".join(shown))
    return [one for one in hidden if len(one.text) >= 30 and one.text not in everything]


def squeeze(text: str) -> str:
    """Strip indentation, comments, blank lines and lines of brackets only."""
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if len(line) > 3 and not line.startswith("#"))


def leaks(found: Mapping[str, bytes], hidden: Iterable[Secret]) -> list[Problem]:
    """Return a problem for every file, also inside wheels, that contains a secret."""
    hidden = list(hidden)
    return [
        Problem(Path(name), None, f"shows the {one.place}:\n{one.text}")
        for name, text in texts(found)
        for one in hidden
        if one.text in text
    ]


def texts(found: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield the squeezed text of each file, of each whole notebook, and of files in wheels."""
    for name, content in found.items():
        if name.endswith(".whl"):
            with zipfile.ZipFile(io.BytesIO(content)) as wheel:
                inside = {f"{name}/{one}": wheel.read(one) for one in wheel.namelist()}
            yield from texts(inside)
            continue
        text = content.decode("utf-8", "replace")
        if name.endswith(".ipynb"):
            text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        yield name, squeeze(text)


def dead(found: Mapping[str, bytes]) -> list[Problem]:
    """Return the links in the handout that lead nowhere in it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name, content in found.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        return dead_links(root, [root / name for name in found if name.endswith((".md", ".ipynb"))])


# --- one file of it ---------------------------------------------------------------------------


def pack(found: Mapping[str, bytes], folder: str) -> bytes:
    """Return a zip file of the handout in ``folder``.

    It does not depend on the clock, the owner or the order of the file system.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(found):
            entry = zipfile.ZipInfo(f"{folder}/{name}", _DATE)
            entry.create_system = 3  # Unix, on whatever system this runs
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, found[name])
    return packed.getvalue()


def checked(root: Path, folder: Path, *, graded: bool = False) -> dict[str, bytes]:
    """Return :func:`files` and the wheels in ``folder``, checked.

    Raises CourseError if a secret would be handed out, a link leads nowhere, or a wheel is missing
    or of another version.
    """
    wheels = [
        folder / f"{package.name}-{version(root, package)}-py3-none-any.whl" for package in PACKAGES
    ]
    if missing := [wheel for wheel in wheels if not wheel.is_file()]:
        raise CourseError(
            [Problem(wheel, None, "is missing: `make release` builds it") for wheel in missing]
        )
    found = files(root, wheels, graded=graded)
    _, sources = read_course(root)
    if problems := [*leaks(found, secrets(sources)), *dead(found)]:
        raise CourseError(problems)
    return found


def release(root: Path, folder: Path) -> Path:
    """Write the handout beside the wheels in ``folder``; return its path.

    Raises CourseError like :func:`checked`.
    """
    found = checked(root, folder)
    name = f"gpu-course-{version(root)}"
    target = folder / f"{name}.zip"
    target.write_bytes(pack(found, name))
    return target


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpucourse.publish.release.handout")
    parser.add_argument("folder", type=Path, help="where the wheels are and the handout goes")
    try:
        target = release(Path.cwd(), parser.parse_args().folder)
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    with zipfile.ZipFile(target) as archive:
        number = len(archive.namelist())
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    print(
        f"{target}: {many(number, 'file')}, {target.stat().st_size / 1e6:.1f} MB, sha256 {digest}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
