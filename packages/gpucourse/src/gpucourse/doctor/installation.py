"""Doctor's checks of the installed packages and their match with the checkout."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import gpucourse
from gpucourse.course.checkout import own_checkout
from gpucourse.course.projects import COURSE, editable, read_projects
from gpucourse.doctor.finding import FAIL, OK, WARN, Finding, install, reinstall, uninstall
from gpucourse.wording import many


def installers() -> Iterator[Finding]:
    """Check for packages whose files come from two installers or two versions."""
    from packaging.utils import canonicalize_name

    group, clean = "packages", True
    # (folder, name) → folder of the metadata → version
    found: defaultdict[tuple, dict] = defaultdict(dict)
    for one in importlib.metadata.distributions():
        if name := one.metadata["Name"]:
            place = Path(str(one.locate_file("")))
            found[place, canonicalize_name(name)][str(getattr(one, "_path", one))] = one.version
    for (folder, name), versions in sorted(found.items()):
        if len(versions) > 1:
            clean = False
            both = " and ".join(sorted(versions.values()))
            yield Finding(
                group,
                name,
                FAIL,
                f"versions {both} are both installed in {folder}, one over the other",
                f"repeat {uninstall(name)} until nothing is left to uninstall, then run "
                f"{reinstall()}",
            )
    installed = {name: next(iter(versions.values())) for (_, name), versions in found.items()}
    mixed = [
        f"{name} (conda {version}, pip {installed[name]})"
        for name, version in _by_conda()
        if installed.get(name, version) != version
    ]
    if mixed:
        clean = False
        yield Finding(
            group,
            "conda and pip",
            WARN,
            "pip has replaced conda's packages with other versions: " + ", ".join(mixed),
            "the next change by conda will break them. Make a new environment with conda env "
            "create -f environment.yml. In it, use pip only for pip install --no-deps "
            "--editable .",
        )
    if clean:
        yield Finding(group, "installed once", OK, many(len(installed), "package"))


def _by_conda() -> Iterator[tuple[str, str]]:
    """Yield (name, version) of the packages that conda records for this environment."""
    from packaging.utils import canonicalize_name

    for record in sorted(Path(sys.prefix, "conda-meta").glob("*.json")):
        try:
            package = json.loads(record.read_text(encoding="utf-8"))
            yield canonicalize_name(package["name"]), package["version"]
        except (OSError, ValueError, KeyError):
            continue


def checkout() -> Iterator[Finding]:
    """Check that an editable install still matches the checkout.

    Python files are read from the checkout. The list of requirements, the version and Jupyter's
    settings are copies from the day of the installation.
    """
    group, name = "packages", "gpucourse"
    try:
        installed = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return  # another part says so
    if (root := own_checkout()) is None:
        return
    stale = []
    if installed.version != gpucourse.__version__:
        stale.append(f"the version ({installed.version}, now {gpucourse.__version__})")
    requirements = list(installed.requires or [])
    for package in ("gpustandins", "virtualgpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            requirements += importlib.metadata.requires(package) or []
    if _specifiers(read_projects(root).dependencies) - _specifiers(requirements):
        stale.append("the list of its requirements")
    for folder in ("jupyter", "ipython"):
        settings = root / COURSE.parent / folder
        for path in sorted(filter(Path.is_file, settings.rglob("*.*"))):
            copy = Path(sys.prefix, "etc", folder, path.relative_to(settings))
            if not copy.is_file() or copy.read_bytes() != path.read_bytes():
                stale.append(f"{copy.relative_to(sys.prefix)}")
    if stale:
        yield Finding(
            group,
            name,
            WARN,
            f"the installed copy is older than {root}: {', '.join(stale)}",
            f"{install('--no-deps', *editable(root))}, then start Jupyter again",
        )
    else:
        yield Finding(group, name, OK, f"{installed.version}, from {root}")


def _specifiers(texts: list[str]) -> set[tuple[str, str]]:
    """Return requirements as (name, version specifier), including those of extras."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return {(canonicalize_name(one.name), str(one.specifier)) for one in map(Requirement, texts)}
