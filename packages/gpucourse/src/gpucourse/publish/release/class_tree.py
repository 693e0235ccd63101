"""Files of a graded class (``make class``), as a separate git repository and as a zip file.

    python -m gpucourse.publish.release.class_tree build/release build/class

The files are those of the handout (:mod:`.handout`: lectures, projects, pictures, packages; no
solutions, no hidden tests), in a folder that nbgitpuller can clone after you push it somewhere.
Each further run adds one commit, so that learners' work is merged with the changes. Files that the
teacher added to the folder stay.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpucourse.course.problems import CourseError, Problem
from gpucourse.publish.release import handout as release
from gpucourse.publish.release.environments import version
from gpucourse.publish.release.hub import BRANCH, FOLDER
from gpucourse.wording import many

#: File in the tree that lists the files this command wrote, so that it removes no others.
LIST = ".class-tree"


def write(tree: Path, found: Mapping[str, bytes], message: str) -> str:
    """Update the repository ``tree`` to ``found``; return a description of the changes.

    Raises CourseError, and changes nothing, if files of an earlier run were changed by hand and
    not committed.
    """
    if not (tree / ".git").is_dir():
        tree.mkdir(parents=True, exist_ok=True)
        _git(tree, "init", "--quiet", "--initial-branch", BRANCH)
    before = _listed(tree)
    if changed := _git(tree, "status", "--porcelain", "--untracked-files=no").splitlines():
        raise CourseError(
            [
                Problem(
                    tree / line[3:],
                    None,
                    "was changed by hand: commit it, or undo the change (git restore)",
                )
                for line in changed
            ]
        )
    taken = [name for name in found if name not in before and (tree / name).exists()]
    if taken:
        raise CourseError(
            [
                Problem(
                    tree / name,
                    None,
                    "is in the place of a file of the class's tree, but no earlier run wrote it: "
                    "move it away",
                )
                for name in taken
            ]
        )
    for name in before - found.keys():
        (tree / name).unlink(missing_ok=True)
    for name, content in found.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    (tree / LIST).write_text("\n".join(sorted(found)) + "\n", encoding="utf-8")
    _git(
        tree,
        "add",
        "--all",
        "--pathspec-from-file=-",
        "--pathspec-file-nul",
        given="\0".join(f":(literal){name}" for name in [*_known(tree, before), *found, LIST]),
    )
    staged = _git(tree, "diff", "--cached", "--name-only").splitlines()
    if not staged:
        return "nothing has changed since its last commit"
    _git(tree, *_identity(tree), "commit", "--quiet", "--message", message)
    return f"{len([name for name in staged if name != LIST])} files changed, committed"


def _listed(tree: Path) -> set[str]:
    """Return the files that an earlier run wrote."""
    path = tree / LIST
    return set(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else set()


def _known(tree: Path, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that git tracks, because it refuses to stage others."""
    known = set(_git(tree, "ls-files", "-z").split("\0"))
    return [name for name in names if name in known]


def _identity(tree: Path) -> list[str]:
    """Return options that name an author if git has none configured."""
    known = subprocess.run(["git", "config", "user.email"], cwd=tree, capture_output=True)
    return (
        []
        if known.returncode == 0
        else ["-c", "user.name=make class", "-c", "user.email=class@localhost"]
    )


def _git(tree: Path, *arguments: str, given: str = "") -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=tree, input=given, text=True, capture_output=True
    )
    if done.returncode:
        said = f"git {' '.join(arguments)}: {done.stderr.strip()}"
        raise CourseError([Problem(tree, None, said)])
    return done.stdout


def make(root: Path, wheels: Path, folder: Path) -> list[str]:
    """Write the tree and its zip file into ``folder``; return the changes in lines.

    ``wheels`` is the folder with the wheels of this version.
    """
    found = release.checked(root, wheels, graded=True)
    tree = folder / FOLDER
    done = write(tree, found, f"The course, version {version(root)}")
    archive = folder / f"{FOLDER}-class.zip"
    archive.write_bytes(release.pack(found, FOLDER))
    return [
        f"{tree}: {many(len(found), 'file')}, no answers and no hidden tests; {done}",
        f"{archive}: the same, {archive.stat().st_size / 1e6:.1f} MB",
        "Push the first where your hub can read it, as",
        f"    git -C {tree} push https://git.my-university.edu/our-class.git {BRANCH}",
        "name it in your hub's settings as COURSE_REPOSITORY, and print links to it with",
        "    .venv/bin/python -m gpucourse.publish.release.hub HUB --settings yours.yaml",
    ]


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpucourse.publish.release.class_tree")
    parser.add_argument("wheels", type=Path, help="where `make release` put the packages")
    parser.add_argument("folder", type=Path, help="where the repository and the zip go")
    options = parser.parse_args()
    try:
        print("\n".join(make(Path.cwd(), options.wheels, options.folder)))
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
