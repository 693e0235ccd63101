"""Generator of the links that open the course on a JupyterHub (``hub/links.md``).

    python -m gpucourse.publish.release.hub https://hub.my-university.edu  # the links, to hand out

When a learner opens a link, nbgitpuller clones or updates their copy of the course and then opens
a notebook in it. Learners keep their changes: nbgitpuller merges, and if both sides have changed
the same lines, it keeps the learner's version.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, urlencode

from gpucourse.course.checkout import notebook_path
from gpucourse.course.projects import repository_url
from gpucourse.course.registry import Course, Project, load_course
from gpucourse.publish.notebooks import welcome
from gpucourse.publish.release import binder

#: Placeholder for the hub's address if none is given.
EXAMPLE = "https://hub.example.org"
#: Folder in a learner's home directory, whatever a copy of the repository is called. The settings
#: in hub/ contain the same name.
FOLDER = "gpu-course"
BRANCH = "main"
#: File of a cluster's settings that name the repository.
VALUES = "hub/values.yaml"

_LINKS = """\
<!-- {generated} -->
# Links for a JupyterHub

Each link clones the course into the learner's home directory, or updates the clone, and opens one
page. The learners' own work in their notebooks stays. To make the links for your hub, run

    python -m gpucourse.publish.release.hub https://hub.my-university.edu

{table}
"""


def files(root: Path, url: str) -> dict[str, str]:
    """Return ``hub/links.md``, and the default address that ``hub/pull.sh`` clones."""
    table = links_table(load_course(root), url, EXAMPLE)
    return {
        "hub/repository": f"{url}\n",
        "hub/links.md": _LINKS.format(generated=binder.GENERATED, table=table),
    }


def repository_set(settings: Iterable[Path]) -> str | None:
    """Return the learners' repository in a hub's settings; the last file that sets one wins.

    ``hub/values.yaml`` and files that override it set ``COURSE_REPOSITORY``; ``hub/tljh.py`` sets
    ``REPOSITORY``. The result is None if all leave it empty. Raises OSError if a file is missing.
    """
    named = re.compile(r"""(?m)^(?: *COURSE_REPOSITORY:|REPOSITORY =)[ ]*["']?([^\s"'#]+)""")
    found = [name for path in settings for name in named.findall(path.read_text(encoding="utf-8"))]
    return found[-1] if found else None


def link(hub: str, url: str, path: Path, branch: str = BRANCH) -> str:
    """Return the address on ``hub`` that fetches the repository ``url`` and opens ``path``."""
    query = urlencode(
        {
            "repo": url,
            "branch": branch,
            "targetpath": FOLDER,
            "urlpath": f"lab/tree/{FOLDER}/{quote(path.as_posix())}",
        }
    )
    return f"{hub.rstrip('/')}/hub/user-redirect/git-pull?{query}"


def links_table(course: Course, url: str, hub: str, branch: str = BRANCH) -> str:
    """Return the welcome page and every lesson with their links, as a Markdown table."""
    rows = [
        "| | minutes | |",
        "|---|---|---|",
        f"| [Welcome]({link(hub, url, welcome.NOTEBOOK, branch)}) | | the map of the course |",
    ]
    for lesson in course.lessons:
        kind = f"project, {lesson.points:g} points" if isinstance(lesson, Project) else "lecture"
        address = link(hub, url, notebook_path(lesson), branch)
        rows.append(f"| [{lesson.title}]({address}) | {lesson.minutes} | {kind} |")
    return "\n".join(rows)


def main() -> None:
    """Run the command line: print the table for a hub."""
    parser = argparse.ArgumentParser(prog="python -m gpucourse.publish.release.hub")
    parser.add_argument("hub", help="its address, as https://hub.my-university.edu")
    parser.add_argument(
        "--settings",
        type=Path,
        action="append",
        metavar="FILE",
        help="the hub's own settings, yours.yaml or gpucourse.py, which name the repository",
    )
    parser.add_argument("--repository", help="a copy of the course, where no settings name it")
    parser.add_argument("--branch", default=BRANCH)
    options = parser.parse_args()
    root = Path.cwd()
    own = repository_url(root)
    try:
        cloned = repository_set([*root.glob(VALUES), *(options.settings or ())]) or own
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    url = options.repository or cloned
    if url is None:
        parser.error("run this in the course's repository, or name one with --repository")
    if cloned and url != cloned:
        print(
            f"The hub's settings make servers clone {cloned}, so links to {url} do not work "
            f"there. Set COURSE_REPOSITORY: {url} in the hub's settings, and name the file with "
            "--settings.",
            file=sys.stderr,
        )
    print(links_table(load_course(root), url, options.hub, options.branch))


if __name__ == "__main__":
    main()
