"""The repository as a whole: who imports whom, what may stand in a tracked file, true READMEs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gpucourse
import jaxpile
import virtualgpu
from gpucourse.course.projects import COURSE, VIRTUALGPU, read_projects
from gpucourse.learner.bundle import changed_notebooks
from gpucourse.publish.release import environments

# What virtualgpu may import beside itself and the standard library.
FOUNDATIONS = {"numpy", "numba", "llvmlite", "cuda"}
# Files of virtualgpu that serve another library may import that library.
GUESTS: dict[str, set[str]] = {
    "successor/messages.py": {"numba_cuda_mlir"},
    "successor/numba_types.py": {"numba_cuda_mlir"},
    # imported where Awkward Arrays are met
    # imported where coverage.py measures the process
    "kernel_lines/inference.py": {"coverage"},
    # imported by pytest alone
    "pytest_plugin/__init__.py": {"pytest"},
    "pytest_plugin/options.py": {"pytest"},
    "pytest_plugin/summary.py": {"pytest"},
    "pytest_plugin/watching.py": {"pytest"},
    # imported once a program has imported Triton
    "triton/driver.py": {"torch", "triton"},
    "torch_device.py": {"torch"},
    "triton/hooks.py": {"triton"},
}

# The stand-ins use each other by the names of the originals.
STANDINS = {"cupy", "cupyx", "pycuda", "cudf"}
# What some of them are made of, or serve, beside NumPy and the driver's binding.
MADE_OF = {
    "awkward_backend.py": {"awkward"},
    "cudf/": {"pandas"},
    "cupyx/scipy/": {"scipy"},
    "cupy/testing/_against_numpy.py": {"pytest"},
}

# Packages that nbgrader and JupyterLab are made of; their bounds choose the versions.
PARTS_OF_NBGRADER = {"dateutil", "nbconvert", "sqlalchemy"}
PARTS_OF_JUPYTERLAB = {"jupyter_client", "jupyter_core", "jupyter_server", "jupyterlab_server"}

# README's commands that a test tries, rather than a line of the workflow.
TRIED_BY_TESTS = {
    "make course": "tests/repository/test_make.py",
    ".venv/bin/gpucourse grade projects/01_fill_a_histogram/01_fill_a_histogram.ipynb": (
        "tests/repository/test_make.py"
    ),
}
REMARK = "# not run in CI"


@pytest.fixture(scope="module")
def tracked(repository: Path) -> list[Path]:
    """Every file that git tracks and that is still there."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True
    ).stdout
    paths = [repository / name for name in names.split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.fixture(scope="module")
def url(repository: Path) -> str:
    (address,) = {
        tomllib.loads((repository / package).read_text())["project"]["urls"]["Repository"]
        for package in (COURSE, VIRTUALGPU)
    }
    return address


def texts(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        data = path.read_bytes()
        if b"\0" not in data:
            yield path, data.decode("utf-8")


# --- imports ----------------------------------------------------------------------------------


def imported(path: Path, package: str) -> set[str]:
    """The first names of all that a module imports, at any depth, by statement or by string.

    ``package`` is the package that holds the module: a relative import is one of its own.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0] if node.level == 0 else package)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] in {"import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            found.add(str(node.args[0].value).split(".")[0] or package)  # ".module": its own
    return found


def modules(repository: Path, package: str) -> list[Path]:
    return sorted((repository / "packages" / package / "src" / package).rglob("*.py"))


def test_no_notebook_of_a_fresh_checkout_counts_as_somebodys_work(repository, tmp_path):
    """`gpucourse save` would take it along. As committed: here somebody may have worked."""
    archive = subprocess.run(
        ["git", "archive", "HEAD", "*.ipynb"], cwd=repository, stdout=subprocess.PIPE, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", tmp_path], input=archive, check=True)
    assert [path for path, _ in changed_notebooks(tmp_path)] == []


def test_imports_are_found_in_every_spelling(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import a.b as c\nfrom d.e import f\nfrom . import g\n"
        "def late():\n    import h\n    return importlib.import_module('i.j')\n"
    )
    assert imported(module, "own") == {"a", "d", "own", "h", "i"}


def test_virtualgpu_rests_on_the_compilers_alone(repository: Path) -> None:
    allowed = FOUNDATIONS | {"virtualgpu"} | set(sys.stdlib_module_names)
    root = repository / "packages/virtualgpu/src/virtualgpu"
    for path in modules(repository, "virtualgpu"):
        name = path.relative_to(root).as_posix()
        extra = imported(path, "virtualgpu") - allowed - GUESTS.get(name, set())
        assert not extra, f"virtualgpu/{name} imports {sorted(extra)}"
    assert set(GUESTS) <= {path.relative_to(root).as_posix() for path in root.rglob("*.py")}


def test_stand_ins_rest_on_virtualgpu_and_what_they_are_made_of(repository: Path) -> None:
    allowed = FOUNDATIONS | STANDINS | {"gpustandins", "virtualgpu"} | set(sys.stdlib_module_names)
    root = repository / "packages/gpustandins/src/gpustandins"
    for path in modules(repository, "gpustandins"):
        name = path.relative_to(root).as_posix()
        made_of = {one for part, names in MADE_OF.items() if name.startswith(part) for one in names}
        extra = imported(path, "gpustandins") - allowed - made_of
        assert not extra, f"gpustandins/{name} imports {sorted(extra)}"


def test_gpucourse_does_not_import_the_course(repository: Path) -> None:
    above = {"course", "tests", "lab", "conftest"}
    for path in modules(repository, "gpucourse"):
        assert not imported(path, "gpucourse") & above, path


def test_gpucourse_declares_what_it_imports(repository: Path) -> None:
    declared = {
        canonicalize_name(Requirement(text).name) for text in read_projects(repository).dependencies
    }
    own = {"gpucourse", "gpustandins", "virtualgpu"} | set(sys.stdlib_module_names)
    owners = packages_distributions()
    for path in modules(repository, "gpucourse"):
        for name in imported(path, "gpucourse") - own:
            names = {canonicalize_name(owner) for owner in owners.get(name, [name])}
            known = PARTS_OF_NBGRADER | PARTS_OF_JUPYTERLAB | STANDINS
            assert names & declared or name in known, f"{path} imports {name}"


@pytest.mark.parametrize("package", [gpucourse, jaxpile, virtualgpu])
def test_no_public_name_is_also_a_module(package: ModuleType) -> None:
    """An import of the module would put it in the name's place, wherever that import stands."""
    names = {
        *vars(package).get("__all__", ()),
        *(name for group in ("VERBS", "VIEWS", "WORK") for name in getattr(package, group, ())),
    }
    assert names
    assert names & {module.name for module in iter_modules(package.__path__)} == set()


def test_importing_gpucourse_loads_nothing_heavy() -> None:
    script = (
        "import sys; import gpucourse; heavy = {'numpy', 'numba', 'jax', 'IPython', 'virtualgpu', "
        "'awkward', 'matplotlib'}; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# --- what may stand in a tracked file ---------------------------------------------------------


def test_no_machine_paths(tracked: list[Path]) -> None:
    folders = "|".join(("wo" + "rk", "ro" + "ot", "tm" + "p/w", "home/(?!course|jovyan)[a-z]+"))
    pattern = re.compile(rf"(?:^|[^\w.-])/(?:{folders})/", re.MULTILINE)
    found = [f"{path}: {hit[0]}" for path, text in texts(tracked) for hit in pattern.finditer(text)]
    assert not found


def test_no_package_index_is_named(tracked: list[Path]) -> None:
    pattern = re.compile(r"""(?:index-url|registry|"resolved")[" =:]*https?://|/simple/""")
    found = [f"{p}: {hit[0]}" for p, text in texts(tracked) for hit in pattern.finditer(text)]
    assert [line for line in found if not line.startswith(__file__)] == []
    assert not {path.name for path in tracked} & {"uv.lock", "pylock.toml", ".python-version"}


def test_no_lock_pins_the_jax_that_computes_wrong(repository: Path) -> None:
    """jax.jit of 0.10.2 says 1065369600 on the CPU where 0.10.1 and 0.12 say 1073741824, the right
    float32 (jax-ml/jax#39103): test_programs_found.py in packages/jaxpile computes the program."""
    pin = re.compile(r"^(jax(?:lib|-[\w-]+)?)(?:\[[^]]*\])?==([\w.]+)", re.MULTILINE)
    locks = [*(repository / "requirements").glob("*.txt"), repository / "binder/requirements.txt"]
    pinned = {(name, version) for lock in locks for name, version in pin.findall(lock.read_text())}
    plugins = {"jax-cuda12-plugin", "jax-cuda13-plugin"}
    assert plugins | {"jax", "jaxlib"} <= {name for name, _ in pinned}
    assert [pair for pair in pinned if pair[1] == "0.10.2"] == []
    for project in (repository / "packages").glob("*/pyproject.toml"):
        listed = tomllib.loads(project.read_text())["project"]
        extras = listed.get("optional-dependencies", {}).values()
        for text in [*listed["dependencies"], *(text for extra in extras for text in extra)]:
            wanted = Requirement(text)
            if wanted.name in ("jax", "jaxlib"):
                assert "0.10.1" in wanted.specifier and "0.10.2" not in wanted.specifier, text


def test_notebooks_hold_no_outputs(tracked: list[Path]) -> None:
    for path in tracked:
        if path.suffix == ".ipynb":
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
                assert not cell.get("outputs"), f"{path}, cell {cell['id']}"
                assert cell.get("execution_count") is None, f"{path}, cell {cell['id']}"


# --- the address of the repository ------------------------------------------------------------


def test_the_licences_in_the_packages_are_the_repositorys(repository: Path) -> None:
    """The course's package carries lessons, which are teaching text."""
    for package in (repository / "packages").glob("*/pyproject.toml"):
        licence = package.with_name("LICENSE").read_text()
        assert licence == (repository / "LICENSE").read_text()
    project = tomllib.loads((repository / COURSE).read_text())["project"]
    teaching = (repository / COURSE).with_name("LICENSE-teaching").read_text()
    assert teaching == (repository / "course/LICENSE").read_text()
    assert project["license"] == "BSD-3-Clause AND CC-BY-4.0"


def test_the_address_stands_once(tracked: list[Path], repository: Path, url: str) -> None:
    slug = url.removeprefix("https://github.com/")
    holders = {
        path.relative_to(repository).as_posix() for path, text in texts(tracked) if slug in text
    }
    generated = (
        "lectures/colab/",
        "hub/",
        "docs/lessons.md",
        ".github/ISSUE_TEMPLATE/config.yml",
        environments.PUBLISH,
    )
    copies = {name for name in holders if name.startswith(generated)}
    copies |= {
        name for name in holders if re.fullmatch(r"packages/\w+/(README\.md|pyproject\.toml)", name)
    }
    copies |= holders & environments.expected(repository).keys() - {"README.md", "CITATION.cff"}
    assert holders - copies == {"README.md", "CITATION.cff"} and str(COURSE) in copies
    readme = (repository / "README.md").read_text()
    outside = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", readme, flags=re.DOTALL)
    assert slug not in outside, "in README.md only generated blocks name the address"


def test_the_badge_names_a_workflow_that_exists(repository: Path) -> None:
    readme = (repository / "README.md").read_text()
    names = set(re.findall(r"actions/workflows/([\w.-]+\.yml)", readme))
    assert names
    assert all((repository / ".github" / "workflows" / name).is_file() for name in names)


# --- what the documents promise ---------------------------------------------------------------


def commands(document: Path) -> list[str]:
    """The lines of a document's sh blocks, a continued line joined to the next."""
    blocks = re.findall(r"```sh\n(.*?)```", document.read_text(), flags=re.DOTALL)
    return [
        line.strip() for block in blocks for line in re.sub(r"\\\n\s*", " ", block).splitlines()
    ]


def verbs(repository: Path) -> dict[str, str]:
    """The Makefile's public verbs and their one-line meanings."""
    text = (repository / "Makefile").read_text()
    return dict(re.findall(r"(?m)^([a-z-]+):.*?## (.+)$", text))


def workflow(repository: Path) -> dict:
    return yaml.safe_load((repository / ".github" / "workflows" / "test.yml").read_text())


def run_by_ci(repository: Path) -> set[str]:
    jobs = workflow(repository)["jobs"].values()
    steps = [step.get("run", "") for job in jobs for step in job["steps"]]
    return {line.strip() for text in steps for line in text.splitlines()}


def test_readme_commands_are_the_ones_that_ci_runs(repository: Path) -> None:
    known = run_by_ci(repository) | set(TRIED_BY_TESTS)
    found = commands(repository / "README.md")
    assert {"make course", "make test", "make demo"} <= set(found)
    for command in found:
        assert command in known or REMARK in command or command.startswith("cd "), (
            f"README shows `{command}`: have the workflow run it, or remark `{REMARK}`"
        )
    for command, test in TRIED_BY_TESTS.items():
        assert command.split()[-1] in (repository / test).read_text(), f"{test}: no {command}"


#: Pages for a terminal that has the course's programs already: a hub's, or JupyterLab's.
WITH_PROGRAMS = ("docs/hub.md", "docs/when_something_breaks.md")


def test_commands_of_pages_find_the_courses_programs(repository: Path) -> None:
    """As they are typed: in .venv, by their path or after `activate`."""
    for page in [*(repository / "docs").glob("*.md"), repository / "grading/README.md"]:
        if page.relative_to(repository).as_posix() in WITH_PROGRAMS:
            continue
        entered = False
        for command in commands(page):
            entered |= command.startswith(". ") and "/bin/activate" in command
            needs = re.match(r"(python -m (gpucourse|lab)|gpucourse|nbgrader)\b", command)
            assert entered or not needs, f"{page.name}: `{command}` without `. .venv/bin/activate`"


def test_ci_runs_make_test_on_every_python_that_is_promised(repository: Path) -> None:
    project = tomllib.loads((repository / COURSE).read_text())["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    jobs = workflow(repository)["jobs"]
    for name in ("test", "rehearse"):
        assert jobs[name]["strategy"]["matrix"]["python"] == promised
    assert "make test" in {step.get("run") for step in jobs["test"]["steps"]}
    parts = jobs["rehearse"]["strategy"]["matrix"]["part"]
    assert f"make rehearse PART=${{{{ matrix.part }}}}/{len(parts)}" in {
        step.get("run") for step in jobs["rehearse"]["steps"]
    }
    script = (repository / ".ci" / "run").read_text()
    assert script.rstrip().endswith("\nmake test\nmake rehearse\nmake check")


def test_long_jobs_wait_for_the_quick_one(repository: Path) -> None:
    jobs = workflow(repository)["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items() if name != "quick"} == {
        name: "quick" for name in jobs if name != "quick"
    }
    assert {"make lint", "make test-quick"} <= {step.get("run") for step in jobs["quick"]["steps"]}


def test_nothing_is_published_before_the_tests_are_green_nor_by_a_fork(repository: Path) -> None:
    """Each job waits for the tests of a tag, or begins after a green run of a push to main."""
    plan = yaml.safe_load((repository / environments.PUBLISH).read_text())
    assert plan[True]["workflow_run"]["workflows"] == [workflow(repository)["name"]]
    jobs = plan["jobs"]

    def begins(name: str) -> str:
        while needs := jobs[name].get("needs"):
            name = needs
        return name

    for name in jobs:
        first = jobs[begins(name)]
        assert "github.repository == '" in first["if"], name
        if "uses" in first:
            assert first["uses"].endswith("/test.yml")
        else:
            assert "workflow_run.conclusion == 'success'" in first["if"], name
            assert "workflow_run.event == 'push'" in first["if"], name
            (checkout,) = (s for s in first["steps"] if "/checkout@" in s.get("uses", ""))
            assert checkout["with"]["ref"] == "${{ github.event.workflow_run.head_sha }}"


def test_virtualgpu_is_tested_each_week_at_both_ends_of_what_it_allows(repository: Path) -> None:
    plan = yaml.safe_load((repository / ".github" / "workflows" / "bounds.yml").read_text())
    assert plan[True]["schedule"]  # YAML takes the word "on" for a truth
    job = plan["jobs"]["bounds"]
    tried = {(one["bounds"], one["python"]) for one in job["strategy"]["matrix"]["include"]}
    project = tomllib.loads(
        (repository / "packages" / "virtualgpu" / "pyproject.toml").read_text()
    )["project"]
    low, below = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert {("lowest-direct", f"3.{low}"), ("highest", f"3.{int(below) - 1}")} <= tried
    assert job["steps"][-1]["run"].startswith("make bounds BOUNDS=")
    # What holds Numba back is cuDF's, and that alone.
    course = tomllib.loads((repository / COURSE).read_text())["project"]
    extras = course["optional-dependencies"]
    assert [name for name in extras if "numba<0.65" in extras[name]] == ["gpu", "gpu12"]
    assert not [need for need in course["dependencies"] if need.startswith("numba")]


def test_the_parts_of_the_rehearsal_are_all_of_it(repository: Path) -> None:
    """Each file of long tests runs in one of the workflow's parts, and `make rehearse` runs all."""

    def files(part: str) -> list[str]:
        done = subprocess.run(
            [
                "make",
                "-n",
                "-o",
                f"{sys.prefix}/.set-up",
                "-o",
                ".tools/site/.set-up",
                f"VENV={sys.prefix}",
                "rehearse",
                *([f"PART={part}"] if part else []),
            ],
            cwd=repository,
            capture_output=True,
            text=True,
            check=True,
        )
        return re.findall(r"\S+/test_\w+\.py", done.stdout)

    count = len(workflow(repository)["jobs"]["rehearse"]["strategy"]["matrix"]["part"])
    parts = [files(f"{part}/{count}") for part in range(1, count + 1)]
    assert sorted(name for part in parts for name in part) == sorted(files(""))
    assert all(parts)


def test_actions_are_pinned_by_digest_and_no_token_stays_in_a_checkout(repository: Path) -> None:
    """A tag can be moved to other code, which would run with the workflow's rights."""
    used = 0
    for path in (repository / ".github" / "workflows").glob("*.yml"):
        for line in path.read_text().splitlines():
            if "uses:" in line and "uses: ./" not in line:
                used += 1
                assert re.search(r"uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", line), line
        jobs = yaml.safe_load(path.read_text())["jobs"]
        for step in (step for job in jobs.values() for step in job.get("steps", ())):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    assert used
    watched = yaml.safe_load((repository / ".github" / "dependabot.yml").read_text())["updates"]
    assert [update["package-ecosystem"] for update in watched] == ["github-actions"]


def test_the_citation_says_what_an_archive_can_take(repository: Path) -> None:
    """Zenodo reads `CITATION.cff` where there is no `.zenodo.json`, and takes one licence."""
    citation = yaml.safe_load((repository / "CITATION.cff").read_text())
    assert citation["license"] == "BSD-3-Clause"
    assert citation["authors"] and citation["keywords"]
    assert (repository / "course/LICENSE").exists()
    assert not (repository / ".zenodo.json").exists()
