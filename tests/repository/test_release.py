"""`make release`: the same bytes each time, no answers, no hidden tests, and enough to work."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpucourse.course.checkout import notebook_path
from gpucourse.course.problems import CourseError
from gpucourse.course.registry import load_course
from gpucourse.publish.release import handout as release
from gpucourse.publish.source.links import dead_links
from gpucourse.publish.source.reader import read_course
from gpucourse.system.programs import search_path

pytestmark = pytest.mark.rehearsal


def make_release(repository: Path) -> bytes:
    """What ``make release`` writes, run as people run it."""
    # The environment that runs this test is set up already, and must not change under it: -o.
    command = ["make", "-o", f"{sys.prefix}/.set-up", f"VENV={sys.prefix}", "release"]
    done = subprocess.run(
        command,
        cwd=repository,
        env={**os.environ, "PATH": search_path()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = Path(re.search(r"(?m)^(\S+\.zip): \d+ files, ", done.stdout)[1])
    return (repository / written).read_bytes()


@pytest.fixture(scope="module")
def archive(repository: Path) -> bytes:
    return make_release(repository)


@pytest.fixture(scope="module")
def handout(archive: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that comes out of the zip file."""
    folder = tmp_path_factory.mktemp("handout")
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        packed.extractall(folder)
    (root,) = folder.iterdir()
    return root


@pytest.fixture(scope="module")
def found(handout: Path) -> dict[str, bytes]:
    """Its files."""
    return {
        path.relative_to(handout).as_posix(): path.read_bytes()
        for path in sorted(handout.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def hidden(repository: Path) -> list[release.Secret]:
    return release.secrets(read_course(repository)[1])


def test_the_same_bytes_each_time(repository: Path, archive: bytes):
    # Neither work in a notebook nor the time of a file may show.
    (repository / "packages/gpucourse/src/gpucourse/__init__.py").touch()
    old = os.umask(0o077)
    try:
        assert make_release(repository) == archive
    finally:
        os.umask(old)


def test_what_is_in_it(found: dict[str, bytes], repository: Path):
    course = load_course(repository)
    lessons = {notebook_path(lesson).as_posix() for lesson in course.lessons}
    numbered = re.compile(r"(lectures|projects)/.*\d\d_\w+\.ipynb")
    assert {name for name in found if numbered.fullmatch(name)} == lessons
    names = "\n".join(found)
    assert {
        "README.md",
        "welcome.ipynb",
        "LICENSE",
        "docs/when_something_breaks.md",
        "requirements/course.txt",
        "requirements/gpu.txt",
    } <= found.keys()
    wheels = [name for name in found if name.endswith(".whl")]
    assert [name.split("-")[0] for name in wheels] == ["gpucourse", "gpustandins", "virtualgpu"]
    for wheel in wheels:
        with zipfile.ZipFile(io.BytesIO(found[wheel])) as inside:
            names += "\n" + "\n".join(inside.namelist())
    assert {
        "gpucourse/lessons/06_numba_cuda/checks.py",
        "gpucourse/lessons/course.toml",
        "virtualgpu/py.typed",
    } <= set(names.split("\n"))
    assert not re.search(r"solution|wrong|grading/source|(^|/)tests?/|\.pyc|__pycache__", names)


def test_no_solution_and_no_hidden_test_is_in_it(found, hidden):
    assert len(hidden) > 500
    assert {one.place.split(" of ")[0] for one in hidden} == {"solution", "hidden tests"}
    assert {one.place.split(" of ")[1].split(",")[0] for one in hidden} >= {
        f"0{n}_{name}"
        for n, name in (
            (1, "fill_a_histogram"),
            (2, "area_by_sampling"),
            (3, "z_mass"),
            (4, "pycuda"),
        )
    }
    assert release.leaks(found, hidden) == []
    for name, content in found.items():
        if name.endswith(".ipynb"):
            assert b"### BEGIN" not in content and b"### END" not in content, name


def test_a_secret_would_be_found_wherever_it_is(repository: Path, hidden):
    source = "01_fill_a_histogram/01_fill_a_histogram.ipynb"
    for name in (
        f"grading/source/{source}",
        "solutions/01_fill_a_histogram.ipynb",
        "solutions/06_numba_cuda.ipynb",
    ):
        content = (repository / name).read_bytes()
        assert len(release.leaks({"lectures/x.ipynb": content}, hidden)) > 5, name
    # Indented otherwise, in the package.
    (one, *_) = (one for one in hidden if one.place.startswith("hidden tests of 03_z_mass"))
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as inside:
        inside.writestr(
            "gpucourse/x.py", "\n".join(f"      {line}\n" for line in one.text.split("\n"))
        )
    (problem,) = release.leaks({"a.whl": wheel.getvalue()}, [one])
    assert str(problem).startswith("a.whl/gpucourse/x.py: shows the hidden tests of 03_z_mass")


def test_nothing_is_written_that_gives_something_away(repository: Path, tmp_path, monkeypatch):
    wheels = list((repository / "build" / "release").glob("*.whl"))
    with pytest.raises(CourseError, match="make release"):
        release.release(repository, tmp_path)
    for wheel in wheels:
        shutil.copy(wheel, tmp_path)
    whole = release.files

    def with_more(root: Path, wheels: list[Path], **options: bool) -> dict[str, bytes]:
        solution = root / "solutions" / "06_numba_cuda.ipynb"
        return {
            **whole(root, wheels, **options),
            "lectures/06_numba_cuda.ipynb": solution.read_bytes(),
            "docs/x.md": b"[dead](nowhere.md)",
        }

    monkeypatch.setattr(release, "files", with_more)
    with pytest.raises(CourseError) as error:
        release.release(repository, tmp_path)
    assert "shows the solution of 06_numba_cuda" in str(error.value)
    assert "docs/x.md: links to nowhere.md" in str(error.value)
    assert not list(tmp_path.glob("*.zip"))


def test_its_links_lead_somewhere(handout: Path):
    pages = [*handout.rglob("*.md"), *handout.rglob("*.ipynb")]
    assert len(pages) > 15
    assert dead_links(handout, pages) == []


# --- from the handout alone -------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(handout: Path, tmp_path_factory: pytest.TempPathFactory):
    """A function that runs a command in the handout, set up as its README says."""
    home = tmp_path_factory.mktemp("home")
    # No path of this checkout, no CUDA toolkit, no user site: only what was installed.
    keep = {
        name: os.environ[name] for name in ("LANG", "TMPDIR", "UV_CACHE_DIR") if name in os.environ
    }
    environment = {"PATH": f"{handout}/.venv/bin:/usr/bin:/bin", "HOME": str(home), **keep}

    def run(*command: str | Path, folder: str = ".") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=handout / folder, env=environment, capture_output=True, text=True
        )

    text = (handout / "README.md").read_text()
    block, rest = re.search(
        r"```sh\n(python3 -c .+?)&&\n(gpucourse doctor\n.+?)```", text, re.DOTALL
    ).groups()
    assert rest.splitlines() == ["gpucourse doctor", "jupyter lab welcome.ipynb"]
    # uv does the same as pip, in seconds: it has the packages.
    for name, other in (
        ("python3 -c", f"{sys.executable} -c"),
        ("python3 -m venv", f"{sys.executable} -m uv -q venv --python {sys.executable}"),
        ("pip install", f"{sys.executable} -m uv -q pip install --python .venv/bin/python"),
    ):
        assert name in block
        block = block.replace(name, other)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        done = subprocess.run(["sh", "-c", block], cwd=handout, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return run


def test_doctor_is_content_with_the_handout_alone(installed):
    done = installed(".venv/bin/gpucourse", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ready: nothing to fix" in done.stdout and "✗" not in done.stdout


def test_a_lecture_runs_from_the_handout_alone(installed, handout: Path):
    done = installed(
        "../.venv/bin/jupyter", "execute", "--inplace", "06_numba_cuda.ipynb", folder="lectures"
    )
    assert done.returncode == 0, done.stderr
    text = (handout / "lectures" / "06_numba_cuda.ipynb").read_text()
    assert "Virtual GPU (CPU), compute capability" in text
    assert "application/vnd.gpucourse.check+json" in text, "its checks are found and run"


def test_a_hint_is_given_and_grading_says_why_it_cannot(installed):
    program = (
        "from gpucourse.exercises.checks import project\n"
        "project('01_fill_a_histogram')('bin-index')"
    )
    done = installed("../.venv/bin/python", "-c", program, folder="projects")
    assert done.returncode == 0 and "The idea" in done.stdout, done.stderr
    done = installed(
        ".venv/bin/gpucourse", "grade", "projects/01_fill_a_histogram/01_fill_a_histogram.ipynb"
    )
    assert done.returncode == 2
    assert "a handout does not contain them" in " ".join(done.stdout.split())


def test_the_server_keeps_versions_and_saves_soon(installed):
    program = (
        "from jupyter_core.paths import jupyter_config_path\n"
        "from jupyter_server.extension.config import ExtensionConfigManager\n"
        "from jupyterlab_server.settings_utils import _get_overrides\n"
        "server = ExtensionConfigManager(read_config_path=jupyter_config_path())\n"
        "print([name for name, on in server.get_jpserver_extensions().items() if on])\n"
        "print(_get_overrides('.')[0])"
    )
    done = installed(".venv/bin/python", "-c", program)
    assert "'gpucourse.learner.notebook_versions'" in done.stdout, done.stderr
    assert "{'autosaveInterval': 30}" in done.stdout, done.stdout
    assert "{'fetchNews': 'false'}" in done.stdout, done.stdout
