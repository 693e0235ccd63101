"""The packages build, and each runs from what was built, in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from virtualgpu import installing

pytestmark = pytest.mark.rehearsal

# What the course needs and the virtual GPU does not.
STRANGERS = ("jupyterlab", "IPython", "jax", "nbgrader", "awkward", "gpucourse", "gpustandins")


def uv(*arguments: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "uv", "--quiet", *arguments], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of each package, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    for package in ("virtualgpu", "gpustandins", "gpucourse", "jaxpile"):
        uv(
            "build",
            "--python",
            sys.executable,
            "--build-constraint",
            repository / "requirements" / "build.txt",
            "--require-hashes",
            "--out-dir",
            folder,
            repository / "packages" / package,
        )
    return folder


@pytest.fixture(scope="module")
def python(repository: Path, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that holds virtualgpu and pytest."""
    folder = tmp_path_factory.mktemp("install")
    python = folder / "venv" / "bin" / "python"
    (wheel,) = built.glob("virtualgpu-*.whl")
    uv("venv", "--python", sys.executable, folder / "venv")
    uv(
        "pip",
        "install",
        "--python",
        python,
        "--require-hashes",
        "--requirement",
        repository / "requirements" / "virtualgpu.txt",
    )
    uv("pip", "install", "--python", python, "--no-deps", wheel)
    # fails where the lock leaves out something that the package asks for
    uv("pip", "check", "--python", python)
    uv(
        "pip",
        "install",
        "--python",
        python,
        "--constraint",
        repository / "requirements" / "base.txt",
        "pytest",
    )
    return python


def run(python: Path, folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    # No path of this checkout, no CUDA toolkit, no user site: only what was installed.
    keep = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [python, "-I", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": f"{python.parent}:/usr/bin:/bin", **keep},
    )


def test_the_virtual_gpu_brings_nothing_of_the_course(python: Path, tmp_path: Path) -> None:
    program = (
        "from importlib.util import find_spec\n"
        f"print([name for name in {STRANGERS} if find_spec(name)])"
    )
    done = run(python, tmp_path, "-c", program)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("guard", "status", "said"), [(" < x.size", 0, "1 passed"), ("", 1, "test_kernels.py line 10")]
)
def test_the_example_of_its_readme(python, tmp_path, repository, guard, status, said) -> None:
    text = (repository / "packages/virtualgpu/README.md").read_text()
    (example,) = re.findall(r"```python\n# test_kernels.py\n(.*?)```", text, re.DOTALL)
    assert " < x.size" in example
    (tmp_path / "test_kernels.py").write_text(
        "# test_kernels.py\n" + example.replace(" < x.size", guard)
    )
    done = run(python, tmp_path, "-m", "pytest", "--virtual-gpu", "test_kernels.py")
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout


def test_cupy_without_its_stand_in_names_what_installs_it(python: Path, tmp_path: Path) -> None:
    program = "import virtualgpu; virtualgpu.activate(force=True); import cupy"
    done = run(python, tmp_path, "-c", program)
    assert done.returncode == 1
    assert 'its stand-in is not installed: pip install "virtualgpu @' in done.stderr


def test_its_command_looks_at_the_machine(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [python.with_name("virtualgpu"), "doctor"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a first kernel: right" in done.stdout


def test_what_is_in_the_distributions(built: Path) -> None:
    """The wheels are made from the sdists, so these have all that those need."""
    names = {}
    for path in built.iterdir():
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                names[path.name.split("-")[0], "wheel"] = set(wheel.namelist())
        elif path.suffix == ".gz":
            with tarfile.open(path) as sdist:
                names[path.name.split("-")[0], "sdist"] = {
                    name.partition("/")[2] for name in sdist.getnames()
                }
    for package in ("virtualgpu", "gpustandins", "gpucourse", "jaxpile"):
        assert f"{package}/py.typed" in names[package, "wheel"]
        assert f"src/{package}/__init__.py" in names[package, "sdist"]
        folder = f"{package}-0.1.0.dist-info/licenses"
        licences = {"LICENSE", *(["LICENSE-teaching"] if package == "gpucourse" else [])}
        assert {
            name.rpartition("/")[2]
            for name in names[package, "wheel"]
            if name.startswith(f"{folder}/")
        } == licences
    lessons = {
        "gpucourse/lessons/course.toml",
        "gpucourse/lessons/06_numba_cuda/checks.py",
        "gpucourse/lessons/01_fill_a_histogram/predictions.toml",
        "gpucourse/lessons/01_first_steps/puzzles/01_add_ten.toml",
        "gpucourse/lessons/01_first_steps/de.po",
        "gpucourse/languages/de.po",
        "gpucourse/recorded/gpu_bench.json",
        "gpucourse/data/dimuons.root",
    }
    assert lessons <= names["gpucourse", "wheel"]
    recorded = {name for name in names["gpucourse", "wheel"] if "/recorded/" in name}
    assert recorded == {"gpucourse/recorded/gpu_bench.json"}
    assert not any(
        re.search(r"(^|/)tests?/|gpu_check/", name)
        for kind in ("virtualgpu", "gpustandins", "gpucourse", "jaxpile")
        for name in names[kind, "wheel"]
    )


@pytest.mark.parametrize("how", ["a folder", "git"])
def test_pip_installs_the_course_from_a_checkout(
    repository: Path, tmp_path: Path, how: str
) -> None:
    """As `pip install packages/gpucourse`: its other packages are on no index yet."""
    given = f"gpucourse @ git+{repository.as_uri()}#subdirectory=packages/gpucourse"
    report = tmp_path / "report.json"
    given = repository / "packages/gpucourse" if how == "a folder" else given
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", report]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, given], check=True)
    urls = {
        one["metadata"]["name"]: one["download_info"]["url"]
        for one in json.loads(report.read_text())["install"]
    }
    assert all(
        urls[name].startswith(("file://", "git+file://"))
        for name in ("gpucourse", "virtualgpu", "gpustandins")
    )


OWNERS = (
    "etc/ipython/ipython_kernel_config.py",
    "etc/jupyter/jupyter_server_config.json",
    "etc/jupyter/labconfig/default_setting_overrides.json",
    "etc/jupyter/labconfig/page_config.json",
    "share/jupyter/lab/settings/overrides.json",
)


def test_settings_of_an_environments_owner_stay_as_they_are(built: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    uv("venv", "--python", sys.executable, tmp_path / "venv")
    for name in OWNERS:
        (tmp_path / "venv" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "venv" / name).write_text(f"the owner's {name}\n")

    def settings() -> dict[str, str]:
        places = (tmp_path / "venv" / name for name in ("etc", "share"))
        files = (path for place in places for path in place.rglob("*") if path.is_file())
        return {str(path.relative_to(tmp_path / "venv")): path.read_text() for path in files}

    before = settings()
    (wheel,) = built.glob("gpucourse-*.whl")
    uv("pip", "install", "--python", python, "--no-deps", wheel)
    with_ours = settings()
    assert with_ours.items() > before.items()
    uv("pip", "uninstall", "--python", python, "gpucourse")
    assert settings() == before
    # Those of others, whatever they are called: ours lie in folders of their own, or of many.
    for name in with_ours.keys() - before.keys():
        assert any(part.endswith(".d") or part == "gpucourse" for part in Path(name).parts), name


@pytest.mark.parametrize(
    ("package", "part"),
    [("virtualgpu", "tests/ptx"), ("jaxpile", "tests/test_texts.py"), ("gpucourse", "")],
)
def test_an_sdist_has_the_tests_that_can_be_run_from_it(
    built: Path, tmp_path: Path, package: str, part: str
) -> None:
    (path,) = built.glob(f"{package}-*.tar.gz")
    with tarfile.open(path) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    assert (root / "tests").is_dir() == bool(part)
    if part:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", part]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_jaxpile_alone_runs_the_example_of_its_readme(
    repository: Path, built: Path, tmp_path: Path
) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    (wheel,) = built.glob("jaxpile-*.whl")
    uv("venv", "--python", sys.executable, tmp_path / "venv")
    uv(
        "pip",
        "install",
        "--python",
        python,
        "--constraint",
        repository / "requirements" / "base.txt",
        wheel,
    )
    text = (repository / "packages/jaxpile/README.md").read_text()
    program = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2])
    done = run(python, tmp_path, "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    strangers = run(
        python,
        tmp_path,
        "-c",
        "from importlib.util import find_spec; "
        "print(find_spec('gpucourse'), find_spec('virtualgpu'))",
    )
    assert strangers.stdout == "None None\n"


@pytest.fixture(scope="module")
def index(built: Path) -> Iterator[str]:
    """Serve a package index (PEP 503) that has our packages and no other."""
    for path in (*built.glob("*.whl"), *built.glob("*.tar.gz")):
        folder = built / "simple" / path.name.split("-")[0]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).hardlink_to(path)
        links = "".join(f'<a href="{one.name}">{one.name}</a>' for one in folder.glob("*-*"))
        (folder / "index.html").write_text(f"<!DOCTYPE html>{links}")
    handler = partial(SimpleHTTPRequestHandler, directory=built)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()
        thread.join()


def test_published_packages_install_by_their_names(
    repository: Path, index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The READMEs' commands on the day of the release, with nothing but the index changed."""
    monkeypatch.setattr(installing, "ON_THE_INDEX", True)
    python = tmp_path / "venv" / "bin" / "python"
    uv("venv", "--python", sys.executable, tmp_path / "venv")
    for package in ("virtualgpu[numba-cuda]", "virtualgpu[cupy]", "jaxpile", "gpucourse"):
        uv(
            "pip",
            "install",
            "--python",
            python,
            "--index",
            index,
            "--constraint",
            repository / "requirements" / "base.txt",
            *installing.requirements(package),
        )
    uv("pip", "check", "--python", python)
    command = python.with_name("gpucourse")
    done = subprocess.run(
        [command, "doctor"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
