"""Generator of the files that repeat facts from ``pyproject.toml``: installers', README, citation.

Generated are ``requirements/course.txt``, ``binder/requirements.txt``, ``hub/links.md``,
``environment.yml`` (a conda environment for a GPU machine), the link to ``SECURITY.md`` on the
page that opens issues, the marked blocks of ``README.md``, the name under which browsers load the
JupyterLab extension, and the repository's address in ``hub/repository``, ``CITATION.cff`` and
``publish.yml``. Nothing here needs the network, so a test can check that every file is current.

    python -m gpucourse.publish.release.environments          # write them
    python -m gpucourse.publish.release.environments --check  # say which are stale, change nothing
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpucourse.course.locks import course_lock
from gpucourse.course.projects import COURSE, VIRTUALGPU, Projects, read_projects
from gpucourse.course.registry import load_course
from gpucourse.publish.notebooks import welcome
from gpucourse.publish.release import binder, hub
from virtualgpu.api import REPOSITORY, pip_install

# Distributions whose conda package has a different name, or is part of another package (None).
# conda-forge's own `cuda-cccl` contains the C++ headers; the Python package is `cccl-python`.
CONDA_NAMES: dict[str, str | None] = {
    "cuda-bindings": None,
    "cuda-cccl": "cccl-python",
    "cuda-toolkit": None,
    "cudf-cu13": "cudf",
    "cupy-cuda13x": "cupy",
    "matplotlib": "matplotlib-base",
    "playwright": "playwright-python",
}
# conda-forge builds jaxlib for the CPU and for CUDA under one name; the build string selects one.
CONDA_BUILDS: dict[str, str] = {"jaxlib": "*cuda*"}
LAB_EXTENSION = COURSE.parent / "share" / "labextensions" / "gpucourse"
PUBLISH = ".github/workflows/publish.yml"
INSTALLING = VIRTUALGPU.parent / "src" / "virtualgpu" / "installing.py"
# Our packages in an install command of a page, by name or by address.
_NAME = re.compile(r"(?:virtualgpu|gpustandins|gpucourse|jaxpile)(?:\[[\w,-]+\])?(?=[\s\"'`]|$)")
_ONE = rf"[\"']?{_NAME.pattern}(?: @ git\+[^\s\"'`]+)?[\"']?"
_OURS = re.compile(rf"(?P<before>pip install (?:(?:-e \.|pytest) )*)(?P<ours>{_ONE}(?: {_ONE})*)")


def expected(root: Path) -> dict[str, str]:
    """Return the content of each generated file: path relative to ``root`` → text.

    Raises :class:`FileNotFoundError` if ``root`` is not the repository,
    :class:`~gpucourse.course.problems.CourseError` if the registry of lessons has mistakes, and
    :class:`ValueError` if a marker of a generated block is missing in ``README.md``.
    """
    project = read_projects(root)
    lock = (root / "requirements" / "base.txt").read_text(encoding="utf-8")
    url = project.url
    readme = (root / "README.md").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    return {
        "requirements/course.txt": f"# {binder.GENERATED}\n{course_lock(project, lock)}",
        "binder/requirements.txt": binder.requirements(project, lock),
        **hub.files(root, url),
        "environment.yml": conda_environment(project),
        ".github/ISSUE_TEMPLATE/config.yml": issue_links(url),
        "README.md": with_commands(fill_blocks(readme, readme_blocks(root, project)), url),
        "docs/lessons.md": welcome.lessons_page(load_course(root), url),
        "CITATION.cff": fill_citation(citation, url, version(root)),
        PUBLISH: fill_workflow((root / PUBLISH).read_text(encoding="utf-8"), url),
        **{
            path.relative_to(root).as_posix(): with_commands(path.read_text(encoding="utf-8"), url)
            for path in sorted((root / "docs").glob("*.md"))
            if _OURS.search(path.read_text(encoding="utf-8"))
        },
        INSTALLING.as_posix(): re.sub(
            r'(?m)(?<=^REPOSITORY = ")[^"]+', url, (root / INSTALLING).read_text(encoding="utf-8")
        ),
        **package_pages(root, url),
        (LAB_EXTENSION / "package.json").as_posix(): lab_extension(root / LAB_EXTENSION),
    }


def lab_extension(folder: Path) -> str:
    """Return the JupyterLab extension's ``package.json``, with its script's digest in the name.

    JupyterLab's server tells browsers to cache the script for a year without asking again, so a
    changed script needs a new name.
    """
    digest = hashlib.sha256((folder / "static" / "remoteEntry.js").read_bytes()).hexdigest()[:12]
    text = (folder / "package.json").read_text(encoding="utf-8")
    return re.sub(r'(?<="static/remoteEntry\.js)[^"]*', f"?{digest}", text)


def with_commands(text: str, url: str) -> str:
    """Return a page with up-to-date commands that install our packages."""

    def command(found: re.Match[str]) -> str:
        last = re.findall(rf"[\"']?({_NAME.pattern})(?: @ git\+[^\s\"'`]+)?", found["ours"])[-1]
        return found["before"] + pip_install(last).removeprefix("pip install ")

    return _OURS.sub(command, text).replace(f"git+{REPOSITORY}", f"git+{url}")


def stale(root: Path) -> list[str]:
    """Return the generated files that are missing or out of date."""
    return [
        name
        for name, text in expected(root).items()
        if not (path := root / name).is_file() or path.read_text(encoding="utf-8") != text
    ]


def write(root: Path) -> list[str]:
    """Bring every generated file up to date; return those that were changed."""
    changed = stale(root)
    texts = expected(root)
    for name in changed:
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(texts[name], encoding="utf-8", newline="\n")
    return changed


# --- conda ------------------------------------------------------------------------------------


def conda_environment(project: Projects) -> str:
    """Return ``environment.yml``: the course, and the ``gpu`` and ``pycuda`` extras."""
    wanted: dict[str, set[str]] = {}
    for text in [*project.dependencies, *project.extras["gpu"], *project.groups["pycuda"]]:
        requirement = Requirement(text)
        name = CONDA_NAMES.get(canonicalize_name(requirement.name), requirement.name)
        if name is not None and binder.on_binder(requirement):
            wanted.setdefault(name, set()).update(map(str, requirement.specifier))
    lines = [
        f"# {binder.GENERATED}",
        "# For a machine or hub with an NVIDIA GPU and a CUDA 13 driver (12: edit cuda-version).",
        "# Written from the channels' documentation, not yet tried. Afterwards, in the repository:",
        f"#     pip install --no-deps {binder.EDITABLE}",
        "name: gpucourse",
        "channels:",
        "  - rapidsai",
        "  - conda-forge",
        "dependencies:",
        f"  - python {interval(project.python.split(','))}",
        "  - pip",
        "  # NVRTC, NVVM and the runtime come with numba-cuda and cupy, for this version of CUDA.",
        "  - cuda-version 13.*",
    ]
    for name in sorted(wanted):
        words = (name, interval(wanted[name]), CONDA_BUILDS.get(name))
        lines.append("  - " + " ".join(filter(None, words)))
    return "\n".join(lines) + "\n"


def interval(bounds: Iterable[str]) -> str:
    """Return the narrowest version bounds as one string, the lower bound first."""
    ordered = sorted(map(Specifier, bounds), key=lambda bound: Version(bound.version))
    below = [bound for bound in ordered if bound.operator == "<"][1:]
    above = [bound for bound in ordered if bound.operator == ">="][:-1]
    kept = [str(bound) for bound in ordered if bound not in (*below, *above)]
    return ",".join(sorted(kept, reverse=True))


# --- the repository's address -----------------------------------------------------------------


def version(root: Path, package: Path = COURSE.parent) -> str:
    """Return a package's version, by default the course's, without importing it."""
    module = root / package / "src" / package.name / "__init__.py"
    found = re.search(r'^__version__ = "(.+)"$', module.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError(f'{package.name}/__init__.py has no line __version__ = "…"')
    return found[1]


def readme_blocks(root: Path, project: Projects) -> dict[str, str]:
    """Return the texts between ``<!-- name -->`` and ``<!-- /name -->`` in README.md."""
    url = project.url
    slug = url.removeprefix("https://github.com/")
    folder = slug.rsplit("/", 1)[-1]
    workflow = f"{url}/actions/workflows/test.yml"
    badge = f"https://mybinder.org/v2/gh/{slug}/main?urlpath=lab/tree/{welcome.NOTEBOOK}"
    return {
        "badges": (
            f"[![Tests]({workflow}/badge.svg)]({workflow})\n"
            f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({badge})"
        ),
        "clone": f"```sh\ngit clone {url}  # not run in CI\ncd {folder}\nmake course\n```",
        "install": fenced([pip_install("virtualgpu[numba-cuda]"), pip_install("gpustandins")]),
        "linux": fenced(linux_commands(project)),
        "windows": fenced(windows_commands(project)),
        "contents": welcome.by_goal(load_course(root)),
    }


def linux_commands(project: Projects) -> list[str]:
    """Return commands that install the checkout with only Python and pip, and open it.

    They are chained, so that after a failed command none installs into another environment.
    """
    return [
        f"{check_of_version(project)} &&",
        "python3 -m venv .venv && . .venv/bin/activate &&",
        "pip install --require-hashes -r requirements/course.txt &&",
        f"pip install --no-deps {binder.EDITABLE} &&",
        "binder/start jupyter lab welcome.ipynb",
    ]


def check_of_version(project: Projects) -> str:
    """Return a command that fails with advice if ``python3`` is not a supported version."""
    versions = supported(project)
    lowest, highest = (tuple(map(int, versions[end].split("."))) for end in (0, -1))
    advice = f"Use Python {versions[0]} to {versions[-1]}, for example python{versions[-2]}"
    fits = f"{lowest} <= sys.version_info[:2] <= {highest}"
    return f"""python3 -c "import sys; {fits} or sys.exit('{advice}')\""""


def windows_commands(project: Projects) -> list[str]:
    """Return the installation commands for Windows, where ``py`` selects the version."""
    return [
        f"py -{supported(project)[-2]} -m venv .venv",
        r".venv\Scripts\activate",
        r"pip install --require-hashes -r requirements\course.txt",
        f"pip install --no-deps {binder.EDITABLE}",
        "jupyter lab welcome.ipynb",
    ]


def supported(project: Projects) -> list[str]:
    """Return the Python versions that the course supports: 3.11 and so on."""
    taken = SpecifierSet(project.python)
    return [version for version in (f"3.{minor}" for minor in range(50)) if version in taken]


def fenced(commands: Iterable[str]) -> str:
    """Return ``commands`` as a Markdown code block that the rehearsal does not run."""
    return "\n".join(["```sh", *(f"{command}  # not run in CI" for command in commands), "```"])


def fill_blocks(text: str, blocks: Mapping[str, str]) -> str:
    """Replace each marked block of ``text``; a block without both markers is an error."""
    for name, block in blocks.items():
        opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
        marked = re.compile(rf"^{opening}\n.*?^{closing}$", re.DOTALL | re.MULTILINE)
        found = list(marked.finditer(text))
        if len(found) != 1:
            raise ValueError(
                f"README.md needs one {opening} and after it one {closing}, each on its own line. "
                "Put them back, and `make build` writes the text between them"
            )
        start, end = found[0].span()
        text = f"{text[:start]}{opening}\n{block}\n{closing}{text[end:]}"
    return text


def issue_links(url: str) -> str:
    """Return the links beside the issue templates, such as where to report a security hole."""
    return (
        f"# {binder.GENERATED}\n"
        "blank_issues_enabled: true\n"
        "contact_links:\n"
        "  - name: A hole in the grader's wall\n"
        f"    url: {url}/security/policy\n"
        "    about: Please report it in private; SECURITY.md says how, and what is promised.\n"
    )


def package_pages(root: Path, url: str) -> dict[str, str]:
    """Return the package pages of the index, with the repository's address set.

    A page consists of the README, whose links must work there, and of the addresses in the
    metadata. The address comes from the course's own metadata.
    """
    pages = {}
    for package in sorted((root / "packages").glob("*/README.md")):
        text = package.read_text(encoding="utf-8")
        pages[package.relative_to(root).as_posix()] = re.sub(
            r"\]\(https://[^()\s]+?/blob/main/", f"]({url}/blob/main/", with_commands(text, url)
        )
        project = package.with_name("pyproject.toml")
        head, mark, tail = project.read_text(encoding="utf-8").partition("[project.urls]\n")
        table, gap, rest = tail.partition("\n\n")
        for name, place in (
            ("Repository", ""),
            ("Issues", "/issues"),
            ("Changelog", "/blob/main/CHANGELOG.md"),
        ):
            table = re.sub(rf'(?m)^{name} = ".*"$', f'{name} = "{url}{place}"', table)
        pages[project.relative_to(root).as_posix()] = head + mark + table + gap + rest
    return pages


def fill_citation(text: str, url: str, number: str) -> str:
    """Set the repository's address and the version in ``CITATION.cff``."""
    text = re.sub(r"(?m)^repository-code:.*$", f'repository-code: "{url}"', text)
    return re.sub(r"(?m)^version:.*$", f"version: {number}", text)


def fill_workflow(text: str, url: str) -> str:
    """Return ``publish.yml`` with the only repository that may publish, which excludes forks."""
    slug = url.removeprefix("https://github.com/")
    return re.sub(r"github\.repository == '[^']*'", f"github.repository == '{slug}'", text)


# --- the command ------------------------------------------------------------------------------


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpucourse.publish.release.environments")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if stale")
    options = parser.parse_args()
    root = Path.cwd()
    if options.check:
        names = stale(root)
        for name in names:
            print(f"{name} is out of date: run `make build` and commit what it writes")
        return 1 if names else 0
    for name in write(root):
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
