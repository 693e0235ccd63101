"""binder/, environment.yml, README's blocks and the locks agree with pyproject.toml."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from jupyterlab_server.config import get_federated_extensions
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpucourse.course import locks
from gpucourse.course.projects import COURSE, VIRTUALGPU, Projects, read_projects
from gpucourse.publish.release import environments

# What each lock was resolved for beside a package's own needs: extras, and groups of the workspace.
SETS = {
    "base": ["test", "dev"],
    "virtualgpu": ["numba-cuda"],
    "gpu": ["gpu"],
    "gpu12": ["gpu12"],
    "pycuda": ["pycuda"],
    "site": ["site"],
    "build": ["build"],
    "hub": ["hub"],
}
# Locks of a group alone, without what a package needs.
WITHOUT_A_PACKAGE = {"pycuda", "site", "build", "hub"}


@pytest.fixture(scope="module")
def project(repository: Path) -> Projects:
    return read_projects(repository)


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Path:
    """A copy of what the generator reads and writes, up to date."""
    for name in (
        *environments.expected(repository),
        "pyproject.toml",
        "packages/gpucourse/pyproject.toml",
        "packages/virtualgpu/pyproject.toml",
        "packages/gpustandins/pyproject.toml",
        "requirements/base.txt",
        "course/course.toml",
        "packages/gpucourse/src/gpucourse/__init__.py",
        environments.LAB_EXTENSION / "static" / "remoteEntry.js",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, tmp_path / name)
    environments.write(tmp_path)
    return tmp_path


def wanted(repository: Path, project: Projects, name: str) -> list[Requirement]:
    if name == "virtualgpu":
        table = tomllib.loads((repository / VIRTUALGPU).read_text())["project"]
        lists = [table["dependencies"], *map(table["optional-dependencies"].get, SETS[name])]
        return [Requirement(text) for texts in lists for text in texts]
    lists = [project.extras.get(part) or project.groups[part] for part in SETS[name]]
    if name not in WITHOUT_A_PACKAGE:
        lists.append(project.dependencies)
    return [Requirement(text) for texts in lists for text in texts]


def test_generated_files_are_current(repository: Path) -> None:
    assert environments.stale(repository) == [], "run `make build` and commit what it writes"


def test_each_generated_file_is_missed_when_it_changes(copy: Path) -> None:
    for name in environments.expected(copy):
        path = copy / name
        before = path.read_text()
        if name == "README.md":  # only its blocks are generated
            path.write_text(before.replace("mybinder.org/v2", "elsewhere.org/v2"))
        elif name == environments.PUBLISH:  # only the repository that may publish is
            path.write_text(before.replace("repository == 'gpu-", "repository == 'else-"))
        elif name.startswith("docs/") and "pip install" in before:  # only our commands are
            path.write_text(before.replace("git+https://", "git+https://elsewhere/"))
            if path.read_text() == before:  # generated as a whole
                path.write_text(before + "by hand\n")
        elif name.endswith("installing.py"):
            path.write_text(before.replace('REPOSITORY = "https://', 'REPOSITORY = "https://else/'))
        elif name == "CITATION.cff":
            path.write_text(re.sub(r"(?m)^version: .*$", "version: 99", before))
        elif name.startswith("packages/"):  # links into the repository, addresses of metadata
            path.write_text(
                re.sub(
                    r'https://[^"()]+?(/blob/main/|/issues"$)',
                    r"https://x.org/y\1",
                    before,
                    flags=re.MULTILINE,
                )
            )
            if path.read_text() == before:  # a page without such a link
                continue
        else:
            path.write_text(before + "# by hand\n")
        assert environments.stale(copy) == [name]
        assert environments.write(copy) == [name]
        assert path.read_text() == before


def test_another_script_of_the_lab_extension_has_another_address(copy: Path) -> None:
    """JupyterLab's server tells browsers that a script under one address never changes."""
    folder = copy / environments.LAB_EXTENSION

    def address() -> str:
        (found,) = get_federated_extensions([str(folder.parent)]).values()
        return found["jupyterlab"]["_build"]["load"]

    before = address()
    assert (folder / before.partition("?")[0]).is_file()
    with (folder / "static" / "remoteEntry.js").open("a") as script:
        script.write("// more\n")
    package = (environments.LAB_EXTENSION / "package.json").as_posix()
    assert environments.write(copy) == [package]
    assert address() != before and environments.stale(copy) == []


def test_binders_scripts_run_and_install_both_packages(repository: Path) -> None:
    assert all(os.access(repository / "binder" / name, os.X_OK) for name in ("postBuild", "start"))
    assert environments.binder.EDITABLE in (repository / "binder" / "postBuild").read_text()
    python = environments.binder.PYTHON
    assert (repository / "binder" / "runtime.txt").read_text() == f"python-{python}\n"


def test_moving_the_repository_is_one_edit(copy: Path) -> None:
    pyproject = copy / COURSE
    old = tomllib.loads(pyproject.read_text())["project"]["urls"]["Repository"]
    pyproject.write_text(pyproject.read_text().replace(old, "https://github.com/someone/lessons"))
    written = set(environments.write(copy))
    assert written >= {
        "hub/repository",
        "hub/links.md",
        ".github/ISSUE_TEMPLATE/config.yml",
        ".github/workflows/publish.yml",
        "README.md",
        "CITATION.cff",
        "packages/virtualgpu/README.md",
        "packages/jaxpile/pyproject.toml",
    }
    for name in written:
        assert old not in (copy / name).read_text(), name
    for package in ("virtualgpu", "gpustandins", "gpucourse", "jaxpile"):
        project = tomllib.loads((copy / "packages" / package / "pyproject.toml").read_text())
        assert project["project"]["urls"] == {
            "Repository": "https://github.com/someone/lessons",
            "Issues": "https://github.com/someone/lessons/issues",
            "Changelog": "https://github.com/someone/lessons/blob/main/CHANGELOG.md",
        }
    readme = (copy / "README.md").read_text()
    assert old.removeprefix("https://github.com/") not in readme
    assert "mybinder.org/v2/gh/someone/lessons/" in readme
    assert "git clone https://github.com/someone/lessons" in readme
    assert "cd lessons" in readme


def test_pages_print_the_commands_that_work_today(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = copy / "docs" / "pytest.md"
    url = read_projects(copy).url
    today = (
        f'pip install -e . pytest "virtualgpu[tile] @ git+{url}#subdirectory=packages/virtualgpu"'
    )
    assert today in page.read_text()
    # The day of the release: one edit, and `make build`.
    monkeypatch.setattr("virtualgpu.installing.ON_THE_INDEX", True)
    environments.write(copy)
    assert 'pip install -e . pytest "virtualgpu[tile]"\n' in page.read_text()
    assert 'pip install "gpucourse"' in (copy / "packages/gpucourse/README.md").read_text()
    pages = (name for name in environments.expected(copy) if name.endswith(".md"))
    assert not [name for name in pages if "git+" in (copy / name).read_text()]
    monkeypatch.undo()
    environments.write(copy)
    assert today in page.read_text()


def test_a_lost_marker_says_how_to_mend_it(copy: Path) -> None:
    readme = copy / "README.md"
    readme.write_text(readme.read_text().replace("<!-- /badges -->\n", ""))
    with pytest.raises(ValueError, match=r"needs one <!-- badges -->.*Put them back"):
        environments.write(copy)


# --- the locks --------------------------------------------------------------------------------


def test_every_lock_is_known(repository: Path) -> None:
    found = {path.stem for path in (repository / "requirements").glob("*.txt")}
    assert found == {*SETS, "course"}
    assert set(locks.LOCKS) == set(SETS)


@pytest.mark.parametrize("name", SETS)
def test_lock_satisfies_pyproject(repository: Path, project: Projects, name: str) -> None:
    pins = locks.read_lock((repository / "requirements" / f"{name}.txt").read_text())
    for requirement in wanted(repository, project, name):
        found = [pin for pin in pins if pin.name == canonicalize_name(requirement.name)]
        assert found, f"{requirement} is not in requirements/{name}.txt: run `make lock`"
        for pin in found:
            (pinned,) = pin.requirement.specifier
            assert pinned.operator == "=="
            assert requirement.specifier.contains(pinned.version, prereleases=True), (
                f"{pin.requirement} does not satisfy {requirement}: run `make lock`"
            )


@pytest.mark.parametrize("name", SETS)
def test_lock_has_hashes_and_names_no_index(repository: Path, name: str) -> None:
    text = (repository / "requirements" / f"{name}.txt").read_text()
    assert "://" not in text
    assert "index-url" not in text
    for pin in locks.read_lock(text):
        assert pin.hashes, f"{pin.requirement} has no hash"


@pytest.mark.parametrize("name", ["requirements/base.txt", "requirements/course.txt"])
def test_a_lock_has_each_extra_that_one_of_its_packages_asks_for(
    repository: Path, name: str
) -> None:
    """pip before 24 looks for name[extra] anew, and refuses it as soon as a newer one is out."""
    pins = {pin.name: pin for pin in locks.read_lock((repository / name).read_text())}
    asked = 0
    for pin in pins.values():
        try:
            needs = importlib.metadata.requires(pin.name) or []
        except importlib.metadata.PackageNotFoundError:  # for another platform or Python
            continue
        for need in map(Requirement, needs):
            extras = pin.requirement.extras or {""}
            if need.extras and any(
                need.marker is None or need.marker.evaluate({"extra": extra}) for extra in extras
            ):
                asked += 1
                assert need.extras <= pins[canonicalize_name(need.name)].requirement.extras, need
    assert asked


def test_a_python_that_does_not_fit_is_told_which_do(project: Projects) -> None:
    check = environments.check_of_version(project).replace("python3 -c", f"{sys.executable} -c")
    assert subprocess.run(["sh", "-c", check]).returncode == 0
    newer = check.replace("sys.version_info[:2]", "(3, 99)")
    refused = subprocess.run(["sh", "-c", newer], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr) == (
        1,
        "Use Python 3.11 to 3.13, for example python3.12\n",
    )


def test_the_sites_tools_agree_with_the_course_and_stay_out_of_it(repository: Path) -> None:
    def pins(name: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for pin in locks.read_lock((repository / "requirements" / f"{name}.txt").read_text()):
            found.setdefault(pin.name, set()).add(str(pin.requirement.specifier))
        return found

    base, site = pins("base"), pins("site")
    shared = base.keys() & site.keys()
    assert len(shared) > 20
    assert [name for name in shared if not site[name] <= base[name]] == [], "run `make lock`"
    assert {"sphinx", "furo", "myst-nb", "sphinx-revealjs"} <= site.keys() - base.keys()
    assert not {"numba", "jax", "cuda-toolkit"} & site.keys()


def test_reading_a_lock_follows_who_wants_what() -> None:
    pins = locks.read_lock(
        "# by uv\n"
        "a==1 ; sys_platform == 'linux' \\\n    --hash=sha256:aa \\\n    --hash=sha256:ab\n"
        "    # via project (pyproject.toml)\n"
        "b==2 \\\n    --hash=sha256:b\n    # via\n    #   a\n    #   c\n"
        "c==3 \\\n    --hash=sha256:c\n    # via project (pyproject.toml:test)\n"
        "d==4 \\\n    --hash=sha256:d\n    # via b\n"
        "e==5 \\\n    --hash=sha256:e\n    # via c\n"
    )
    assert [pin.name for pin in pins] == ["a", "b", "c", "d", "e"]
    assert pins[0].hashes == ["sha256:aa", "sha256:ab"]
    assert pins[0].requirement.marker is not None
    assert pins[1].wanted_by == ["a", "c"]
    assert locks.reachable(["a"], pins) == {"a", "b", "d"}


# --- Binder and conda -------------------------------------------------------------------------


def test_binder_gets_the_course_and_no_tests(repository: Path, project: Projects) -> None:
    pins = locks.read_lock((repository / "binder" / "requirements.txt").read_text())
    versions = {pin.name: next(iter(pin.requirement.specifier)).version for pin in pins}
    assert len(versions) == len(pins), "one version each: Binder is one machine"
    assert not versions.keys() & {"pytest", "ruff", "hypothesis", "appnope", "pywinpty"}
    for text in project.dependencies:
        requirement = Requirement(text)
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


def test_binder_python_is_one_that_the_package_takes(repository: Path, project: Projects) -> None:
    python = (repository / "binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    assert Requirement(f"python{project.python}").specifier.contains(python)


def test_binder_start_hands_over_to_its_arguments(repository: Path) -> None:
    script = 'echo "$XLA_PYTHON_CLIENT_PREALLOCATE:$1:$JUPYTER_CONFIG_PATH"; exit 7'
    done = subprocess.run(
        [repository / "binder" / "start", "bash", "-c", script, "bash", "two words"],
        capture_output=True,
        text=True,
    )
    # A learner's JupyterLab, as on a hub.
    alone, view = repository / "hub" / "alone", repository / "hub" / "learner"
    assert (done.stdout, done.returncode) == (f"false:two words:{alone}:{view}\n", 7)
    assert (view / "jupyter_server_config.json").is_file()
    assert (alone / "jupyter_server_config.py").is_file()


@pytest.mark.rehearsal
def test_idle_kernels_are_stopped_on_binder(repository: Path) -> None:
    """Jupyter reads the file, under names that its kernel manager has."""
    from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

    given = json.loads((repository / "binder" / "jupyter_server_config.json").read_text())
    (settings,) = given.values()
    assert settings.keys() <= AsyncMappingKernelManager.class_traits().keys()
    shown = subprocess.run(
        [sys.executable, "-m", "jupyter", "server", "--show-config-json"],
        env={**os.environ, "JUPYTER_CONFIG_PATH": str(repository / "binder")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout)["MappingKernelManager"] == settings
    assert settings["cull_idle_timeout"] == 600 and settings["cull_connected"]


def test_binder_opens_on_the_welcome_page(repository: Path) -> None:
    (place,) = re.findall(
        r"mybinder\.org/v2/\S+\?urlpath=lab/tree/(\S+)\)", (repository / "README.md").read_text()
    )
    assert (repository / place).is_file()
    assert place == "welcome.ipynb"


def test_binder_post_build_stops_at_the_first_failure(repository: Path, tmp_path: Path) -> None:
    for name, status in (("python", 3), ("jupyter", 0)):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\nexit {status}\n')
        program.chmod(0o755)
    done = subprocess.run(
        [repository / "binder" / "postBuild"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert done.stdout.startswith("python -m pip install")
    assert "jupyter" not in done.stdout


def test_holes_in_the_wall_are_reported_in_private(repository: Path, project: Projects) -> None:
    config = yaml.safe_load((repository / ".github/ISSUE_TEMPLATE/config.yml").read_text())
    (link,) = config["contact_links"]
    assert link["url"] == f"{project.url}/security/policy"
    assert "SECURITY.md" in link["about"]


def test_conda_environment_names_everything_once(repository: Path, project: Projects) -> None:
    environment = yaml.safe_load((repository / "environment.yml").read_text())
    names = [line.split()[0] for line in environment["dependencies"]]
    assert len(names) == len(set(names))
    for text in project.dependencies:
        name = Requirement(text).name
        name = environments.CONDA_NAMES.get(name, name)
        assert name is None or name in names
    # conda-forge's cuda-cccl is C++ headers, and its cupy has no CUDA version in its name
    assert {"cccl-python", "cupy", "cudf"} <= set(names)
    assert "cuda-cccl" not in names


def test_bounds_of_two_packages_become_the_narrowest() -> None:
    bounds = {">=0.62", "<0.69", "<0.65", ">=0.9", "!=0.64.1"}
    assert environments.interval(bounds) == ">=0.62,<0.65,!=0.64.1"


def test_conda_environment_has_nothing_that_learners_do_not_need(
    repository: Path, project: Projects
) -> None:
    """Neither what tests nor what linters are made of, unless the course needs it too."""
    environment = yaml.safe_load((repository / "environment.yml").read_text())
    names = {line.split()[0] for line in environment["dependencies"]}
    needed = {
        Requirement(text).name
        for text in [*project.dependencies, *project.extras["gpu"], *project.groups["pycuda"]]
    }
    extra = {
        Requirement(text).name
        for group in ("test", "dev")
        for text in project.groups[group]
        if isinstance(text, str)
    } - needed
    extra.remove("pip")  # with which the course itself is installed there
    assert {"pytest", "hypothesis"} <= extra
    assert not names & (extra | {environments.CONDA_NAMES.get(name, name) for name in extra})


def test_a_packages_page_leads_somewhere_from_the_index(
    repository: Path, project: Projects
) -> None:
    """A link in it is an address; those into the repository name a file that is there."""
    pages = sorted((repository / "packages").glob("*/README.md"))
    assert [page.parent.name for page in pages] == [
        "gpucourse",
        "gpustandins",
        "jaxpile",
        "virtualgpu",
    ]
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            assert link.startswith(("https://", "#")), f"{page}: {link}"
            inside = link.removeprefix(f"{project.url}/blob/main/").partition("#")[0]
            assert inside.startswith("https://") or (repository / inside).is_file(), link


def test_locks_are_what_make_lock_resolves(project: Projects) -> None:
    for name, options in locks.LOCKS.items():
        assert options[0].endswith("pyproject.toml") == (name not in WITHOUT_A_PACKAGE)
        parts = [option.split("=") for option in options if option[:7] in ("--extra", "--group")]
        assert [value for _, value in parts] == SETS[name]
        for kind, value in parts if name != "virtualgpu" else ():
            assert value in (project.extras if kind == "--extra" else project.groups)
