"""What a JupyterHub is given: hub/, its links and the command that prints them.

That a class works with it on a real hub is tried by ``python -m lab.trials.hub``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import nbformat
import pytest
import yaml
from nbformat import NotebookNode
from traitlets.config import Config, PyFileConfigLoader

from gpucourse.course.checkout import notebook_path
from gpucourse.course.projects import PACKAGES, repository_url
from gpucourse.course.registry import load_course
from gpucourse.publish.notebooks.derive import notebook_text
from gpucourse.publish.release import environments, hub
from gpucourse.publish.release import handout as release
from gpucourse.publish.source.reader import read_course
from jupyter_lab import Server

pytestmark = pytest.mark.rehearsal

#: Where the image has the repository.
IN_IMAGE = Path("/srv/course")


@pytest.fixture(scope="module")
def values(repository: Path) -> dict:
    return yaml.safe_load((repository / "hub" / "values.yaml").read_text())


@pytest.fixture(scope="module")
def grading(repository: Path) -> dict:
    return yaml.safe_load((repository / "hub" / "grading.yaml").read_text())


# --- links ------------------------------------------------------------------------------------


def table(text: str) -> list[dict[str, str]]:
    """The parts of each link in a page of links."""
    links = re.findall(r"\]\((https://[^)]*git-pull[^)]*)\)", text)
    return [
        {
            "hub": link.partition("/hub/")[0],
            **{key: value for key, (value,) in parse_qs(urlsplit(link).query).items()},
        }
        for link in links
    ]


def test_each_lesson_has_a_link_to_its_notebook(repository: Path) -> None:
    links = table((repository / "hub" / "links.md").read_text())
    opened = [link["urlpath"].removeprefix("lab/tree/gpu-course/") for link in links]
    assert opened == [
        "welcome.ipynb",
        *(notebook_path(lesson).as_posix() for lesson in load_course(repository).lessons),
    ]
    assert all((repository / path).is_file() for path in opened)
    assert {(link["repo"], link["branch"], link["targetpath"]) for link in links} == {
        (repository_url(repository), "main", "gpu-course")
    }


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def test_a_newer_release_reaches_a_notebook_that_was_worked_in(
    repository: Path, tmp_path: Path
) -> None:
    """As nbgitpuller merges: where both changed the same lines, the learner's stay."""
    ours, theirs = tmp_path / "course", tmp_path / "learner"
    ours.mkdir()
    git(ours, "init", "-q", "-b", "main")
    release = nbformat.read(repository / "lectures" / "02_why_gpus.ipynb", 4)
    (ours / "lecture.ipynb").write_text(notebook_text(release))
    git(ours, "add", ".")
    git(ours, "commit", "-q", "-m", "release")
    git(tmp_path, "clone", "-q", "course", "learner")

    def change(folder: Path, word: str, cells: list[int]) -> NotebookNode:
        notebook = nbformat.read(folder / "lecture.ipynb", 4)
        for number in cells:
            notebook.cells[number].source += f"\n# {word} {number}"
        return notebook

    worked = change(theirs, "mine", [2])
    worked.cells[2].execution_count = 1
    worked.cells[2].outputs = [nbformat.v4.new_output("stream", text="a line\n")]
    nbformat.write(worked, theirs / "lecture.ipynb")  # what Jupyter saves with
    (ours / "lecture.ipynb").write_text(notebook_text(change(ours, "new", [2, 10])))
    for folder in (ours, theirs):
        git(folder, "commit", "-q", "-a", "-m", "a change")
    git(theirs, "pull", "-q", "--no-rebase", "--no-edit", "-Xours")
    cells = nbformat.read(theirs / "lecture.ipynb", 4).cells
    assert cells[2].source.endswith("\n# mine 2") and cells[2].outputs
    assert cells[10].source.endswith("\n# new 10")


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpucourse.publish.release.hub", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_the_command_prints_the_links_of_ones_own_hub(repository: Path) -> None:
    done = command(
        repository,
        "https://hub.my-university.edu/",
        "--branch",
        "autumn",
        "--repository",
        "https://git.my-university.edu/teach/gpus.git",
    )
    assert done.returncode == 0, done.stderr
    links = table(done.stdout)
    assert len(links) == 1 + len(load_course(repository).lessons)
    assert {(link["hub"], link["repo"], link["branch"], link["targetpath"]) for link in links} == {
        (
            "https://hub.my-university.edu",
            "https://git.my-university.edu/teach/gpus.git",
            "autumn",
            hub.FOLDER,
        )
    }


def test_outside_the_repository_the_command_says_what_to_do(tmp_path: Path) -> None:
    done = command(tmp_path, "https://hub.my-university.edu")
    assert done.returncode == 2
    assert "run this in the course's repository" in done.stderr and "Traceback" not in done.stderr


# --- values -----------------------------------------------------------------------------------


def amount(text: str) -> float:
    """Bytes that KubeSpawner makes of a quantity."""
    return float(text.removesuffix("G")) * 2**30


def test_memory_fits_what_was_measured(values: dict, repository: Path) -> None:
    measured = json.loads((repository / "lab/results/binder_size.json").read_text())
    notebooks = measured["results"]["notebooks"].values()
    peak = "peak MB of server and kernel"
    lecture = max(one[peak] for one in notebooks if "graded in its kernel" not in one)
    graded = max(one[peak] for one in notebooks if "graded in its kernel" in one)
    memory = values["singleuser"]["memory"]
    assert lecture * 1e6 < amount(memory["guarantee"])
    assert (graded + lecture) * 1e6 < amount(memory["limit"])


def test_people_begin_on_a_page_that_exists(values: dict, repository: Path) -> None:
    page = values["singleuser"]["defaultUrl"].removeprefix(f"/lab/tree/{hub.FOLDER}/")
    assert (repository / page).is_file()


def start_server(
    values: dict, repository: Path, home: Path, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the hook with which a server starts in ``home``; ``asked`` has gitpuller's arguments."""
    puller = home / "gitpuller"
    puller.write_text(f'#!/bin/sh\necho "$@" > {home}/asked\nexit {code}\n')
    puller.chmod(0o755)
    program, script = values["singleuser"]["lifecycleHooks"]["postStart"]["exec"]["command"]
    path = os.pathsep.join([str(home), os.environ["PATH"]])
    return subprocess.run(
        [program, repository / Path(script).relative_to(IN_IMAGE)],
        env={
            **os.environ,
            **values["singleuser"]["extraEnv"],
            "HOME": str(home),
            "PATH": path,
            **environment,
        },
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("code", [0, 1], ids=["a network", "no network"])
def test_the_notebooks_are_fetched_and_a_failure_keeps_nobody_out(
    values: dict, repository: Path, tmp_path: Path, code: int
) -> None:
    assert start_server(values, repository, tmp_path, code).returncode == 0
    assert (tmp_path / "asked").read_text().split() == [
        repository_url(repository),
        "main",
        hub.FOLDER,
    ]


CLASS = "https://git.my-university.edu/our-class.git"


@pytest.mark.parametrize(
    ("cloned", "status"),
    [
        (None, 0),
        (CLASS, 0),
        (CLASS.removesuffix(".git"), 0),
        ("https://git.my-university.edu/whole-course.git", 1),
    ],
)
def test_a_home_with_another_repository_stops_the_server_and_says_why(
    values: dict, repository: Path, tmp_path: Path, cloned: str | None, status: int
) -> None:
    """gitpuller alone would be content, and leave the answers that the other one brought."""
    if cloned:
        git(tmp_path, "init", "-q", hub.FOLDER)
        git(tmp_path / hub.FOLDER, "remote", "add", "origin", cloned)
    done = start_server(values, repository, tmp_path, COURSE_REPOSITORY=CLASS)
    assert done.returncode == status
    assert (tmp_path / "asked").exists() == (status == 0)
    if status:
        assert cloned in done.stderr and CLASS in done.stderr and "mv gpu-course" in done.stderr
        assert (tmp_path / ".gpu-course.log").read_text() == done.stderr


def test_links_and_servers_take_the_repository_from_one_setting(
    repository: Path, tmp_path: Path
) -> None:
    yours = tmp_path / "yours.yaml"
    yours.write_text(f"singleuser:\n  extraEnv:\n    COURSE_REPOSITORY: {CLASS}  # ours\n")
    done = command(repository, "https://hub.my-university.edu", "--settings", str(yours))
    assert {link["repo"] for link in table(done.stdout)} == {CLASS} and not done.stderr
    littlest = tmp_path / "gpucourse.py"
    littlest.write_text(
        (repository / "hub/tljh.py")
        .read_text()
        .replace('\nREPOSITORY = ""', f'\nREPOSITORY = "{CLASS}"')
    )
    done = command(repository, "https://hub.my-university.edu", "--settings", str(littlest))
    assert {link["repo"] for link in table(done.stdout)} == {CLASS} and not done.stderr
    # Links to another repository than the servers clone would open nothing.
    other = "https://git.my-university.edu/other.git"
    done = command(repository, "https://h.org", "--settings", str(yours), "--repository", other)
    assert f"servers clone {CLASS}" in done.stderr and f"COURSE_REPOSITORY: {other}" in done.stderr
    done = command(repository, "https://h.org", "--settings", str(tmp_path / "none.yaml"))
    assert done.returncode == 2 and "none.yaml: No such file" in done.stderr


def test_a_setting_in_the_hubs_own_files_survives_make_build(repository: Path) -> None:
    assert not {"hub/values.yaml", "hub/grading.yaml", "hub/tljh.py"} & set(
        environments.expected(repository)
    )


def test_there_is_a_profile_without_a_gpu_and_one_with(values: dict) -> None:
    cpu, gpu = values["singleuser"]["profileList"]
    assert cpu["default"] and "kubespawner_override" not in cpu
    override = gpu["kubespawner_override"]
    assert override["extra_resource_limits"] == {"nvidia.com/gpu": "1"}
    image = values["singleuser"]["image"]
    assert override["image"] == f"{image['name']}:gpu" and image["tag"] == "cpu"
    assert values["singleuser"]["extraEnv"]["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


# --- the image --------------------------------------------------------------------------------


def test_what_the_image_is_made_of_exists(repository: Path) -> None:
    text = (repository / "hub" / "Dockerfile").read_text()
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.M))
    sources = [
        source.replace("${LOCK}", defaults["LOCK"])
        for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.M)
    ]
    named = re.findall(r"/srv/course/(\S+)", text)
    locks = re.findall(r"requirements/[\w.]+\.txt", text)
    assert "binder/requirements.txt" in sources and "hub/set_up.sh" in named
    assert "requirements/gpu.txt" in locks
    for name in [*sources, *named, *locks]:
        assert (repository / name).exists() or name.startswith("packages/$"), name
    packages = {Path(package).name for package in PACKAGES}
    assert set(re.search(r"for package in (.+?);", text)[1].split()) == packages
    assert set(
        re.findall(r"\$course/packages/(\w+)", (repository / "hub/tljh.sh").read_text())
    ) == (packages)


def image_files(repository: Path) -> dict[str, bytes]:
    """What the image's last stage copies out of the checkout: path in the image → bytes."""
    stage = (repository / "hub" / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    lock = "binder/requirements.txt"
    found = {}
    for source, place in re.findall(r"^COPY (?!--from)(\S+) (\S+)$", stage, re.M):
        origin = repository / source.replace("${LOCK}", lock)
        for path in [origin, *origin.rglob("*")]:
            if path.is_file():
                found[str(place / path.relative_to(origin))] = path.read_bytes()
    return found


def test_a_learner_reads_no_answer_in_the_image(repository: Path, tmp_path: Path) -> None:
    found = image_files(repository)
    assert "/srv/course/hub/pull.sh" in found
    for package in PACKAGES:
        subprocess.run(
            [
                *(sys.executable, "-m", "uv", "-q", "build", "--wheel", "--python", sys.executable),
                *("--out-dir", tmp_path, repository / package),
            ],
            check=True,
        )
    wheels = list(tmp_path.glob("*.whl"))
    assert len(wheels) == len(PACKAGES)
    found |= {wheel.name: wheel.read_bytes() for wheel in wheels}
    hidden = release.secrets(read_course(repository)[1])
    assert release.leaks(found, hidden) == []
    # As the whole checkout would show them.
    (solution, *_) = sorted((repository / "solutions").glob("0*.ipynb"))
    assert release.leaks({"solutions/one.ipynb": solution.read_bytes()}, hidden)


def test_the_image_leaves_out_what_others_must_not_get(repository: Path) -> None:
    ignored = (repository / "hub" / "Dockerfile.dockerignore").read_text().split()
    assert {".git", "grading/submitted", "grading/gradebook.db*"} <= set(ignored)
    # All that git leaves out of the course directory: work, grades, seeds.
    theirs = {
        line.strip("/")
        for line in (repository / ".gitignore").read_text().split()
        if line.startswith("/grading/")
    }
    assert len(theirs) > 8 and {name.replace("grades*.csv", "grades*") for name in theirs} <= set(
        ignored
    )


@pytest.mark.sandbox
def test_set_up_gives_the_image_its_settings_and_users(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    alternatives = ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    subprocess.run(
        [
            "bwrap",
            "--dev-bind",
            "/",
            "/",
            "--bind",
            tmp_path,
            "/etc",
            *alternatives,
            "sh",
            repository / "hub" / "set_up.sh",
            repository,
        ],
        check=True,
    )
    users = [line.split(":") for line in (tmp_path / "passwd").read_text().splitlines()]
    assert users[0][0] == "root"
    assert {(user[0], user[3], user[5]) for user in users[1:]} == {
        ("jovyan", "100", "/home/jovyan")
    }
    assert [int(user[2]) for user in users[1:]] == list(range(20001, 24001))
    assert sorted(path.name for path in (tmp_path / "jupyter").iterdir()) == [
        "jupyter_server_config.json",
        "nbgrader_config.py",
    ]


@pytest.fixture(scope="module", params=["learner", "teacher"])
def server(
    request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Server]]:
    """A JupyterLab with the settings of a learner's or of a teacher's server."""
    folder = tmp_path_factory.mktemp(request.param)
    settings = repository / "hub" / request.param
    server = Server(folder, folder / "home", environment={"JUPYTER_CONFIG_PATH": str(settings)})
    server.start()
    yield request.param, server
    server.stop()


def test_only_teachers_have_formgrader_and_create_assignment(server: tuple[str, Server]) -> None:
    who, running = server
    page = running.get("lab").decode()
    disabled = json.loads(re.search(r'"disabledExtensions": (\[.*?\])', page).group(1))
    hidden = {
        "@jupyter/nbgrader:create-assignment",
        "@jupyter/nbgrader:formgrader",
        "@jupyter/nbgrader:course-list",
    }
    assert hidden & set(disabled) == (hidden if who == "learner" else set())
    assert "@jupyterlab/apputils-extension:announcements" in disabled
    loaded = running.log()
    assert "assignment_list | extension was successfully loaded" in loaded
    formgrader = "formgrader | extension was successfully loaded" in loaded
    assert formgrader == (who == "teacher")


def test_the_names_of_what_is_hidden_are_nbgraders(repository: Path) -> None:
    """A name that nbgrader changed would hide nothing, without a word."""
    extension = Path(sys.prefix) / "share/jupyter/labextensions/@jupyter/nbgrader/static"
    code = "".join(path.read_text() for path in extension.glob("*.js"))
    config = json.loads((repository / "hub/learner/labconfig/page_config.json").read_text())
    for name in config["disabledExtensions"]:
        if name.startswith("@jupyter/nbgrader"):
            assert name in code


# --- nbgrader ---------------------------------------------------------------------------------


def settings(path: Path) -> Config:
    return PyFileConfigLoader(path.name, path=str(path.parent)).load_config()


def test_nbgrader_finds_projects_where_the_links_put_them(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a checkout's own course directory would come first
    everybody = settings(repository / "hub" / "nbgrader_config.py")
    teacher = settings(repository / "hub" / "teacher" / "nbgrader_config.py")
    assert Path(everybody.Exchange.assignment_dir) == Path.home() / hub.FOLDER / "projects"
    assert Path(teacher.CourseDirectory.root) == Path.home() / hub.FOLDER / "grading"
    course = (repository / "grading" / "nbgrader_config.py").read_text()
    assert f'course_id = "{everybody.CourseDirectory.course_id}"' in course
    # A learner submits what the clone has; it must be what the teacher releases.
    assert {path.name for path in (repository / "projects").iterdir() if path.is_dir()} == {
        path.name for path in (repository / "grading" / "source").iterdir()
    }


def test_the_exchange_is_mounted_where_nbgrader_looks(grading: dict, repository: Path) -> None:
    claim = yaml.safe_load((repository / "hub" / "exchange.yaml").read_text())
    storage = grading["singleuser"]["storage"]
    (volume,), (mount,) = storage["extraVolumes"], storage["extraVolumeMounts"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["name"] == mount["name"]
    assert mount["mountPath"] == settings(repository / "hub" / "nbgrader_config.py").Exchange.root
    for container in grading["singleuser"]["initContainers"]:
        assert [one["name"] for one in container["volumeMounts"]] == [volume["name"]]


def test_the_hub_numbers_people_and_knows_the_teacher(
    grading: dict, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"custom.teacher": "curie", "custom.graders": ["noether"]}
    monkeypatch.setitem(
        sys.modules,
        "z2jh",
        SimpleNamespace(get_config=lambda path, default=None: chosen.get(path, default)),
    )
    c = Config()
    c.KubeSpawner.environment = {"KEPT": "1"}
    c.JupyterHub.load_roles = []
    for _, code in sorted(grading["hub"]["extraConfig"].items()):
        exec(code, {"c": c})
    people = [
        SimpleNamespace(user=SimpleNamespace(id=number, name=name))
        for number, name in enumerate(["curie", "noether", "ada"], start=1)
    ]
    assert [c.KubeSpawner.uid(one) for one in people] == [20001, 20002, 20003]
    paths = [c.KubeSpawner.environment["JUPYTER_CONFIG_PATH"](one) for one in people]
    assert [Path(path).name for path in paths] == ["teacher", "learner", "learner"]
    assert all((repository / Path(path).relative_to(IN_IMAGE)).is_dir() for path in paths)
    assert c.KubeSpawner.environment["KEPT"] == "1"
    (role,) = c.JupyterHub.load_roles
    assert c.JupyterHub.load_groups == {role["groups"][0]: {"users": ["noether"]}}
    assert role["scopes"] == ["access:servers!user=curie", "servers!user=curie"]


def test_everybody_may_write_into_the_exchange_and_its_group_stays(
    grading: dict, tmp_path: Path
) -> None:
    """The init container's command, on a folder here: what Kubernetes gave it is kept."""
    (container,) = grading["singleuser"]["initContainers"]
    tmp_path.chmod(0o2755)
    subprocess.run(
        [word.replace("/exchange", str(tmp_path)) for word in container["command"]], check=True
    )
    assert tmp_path.stat().st_mode & 0o7777 == 0o2777


# --- The Littlest JupyterHub ------------------------------------------------------------------


def littlest(repository: Path) -> Config:
    return settings(repository / "hub" / "tljh.py")


def test_one_machine_gives_the_same_view_as_a_cluster(
    repository: Path, values: dict, grading: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    c, pod = littlest(repository), Config()
    given = {"custom.teacher": "teacher", "singleuser.extraEnv": values["singleuser"]["extraEnv"]}
    monkeypatch.setitem(
        sys.modules,
        "z2jh",
        SimpleNamespace(get_config=lambda path, default=None: given.get(path, default)),
    )
    pod.KubeSpawner.environment = dict(values["singleuser"]["extraEnv"])
    pod.JupyterHub.load_roles = []
    for _, code in sorted(grading["hub"]["extraConfig"].items()):
        exec(code, {"c": pod})
    assert c.Spawner.default_url == values["singleuser"]["defaultUrl"]
    assert c.JupyterHub.load_roles == pod.JupyterHub.load_roles
    assert c.JupyterHub.load_groups == pod.JupyterHub.load_groups
    for name in ("teacher", "ada"):
        one = SimpleNamespace(user=SimpleNamespace(id=1, name=name))
        mine, theirs = (
            {key: value(one) if callable(value) else value for key, value in of.items()}
            for of in (c.Spawner.environment, pod.KubeSpawner.environment)
        )
        assert mine == theirs


@pytest.mark.sandbox
def test_one_machines_settings_lie_where_they_are_read_and_names_stay(
    repository: Path, tmp_path: Path
) -> None:
    places = {name: tmp_path / name for name in ("opt", "srv", "environment")}
    for place in places.values():
        place.mkdir()
    command = [
        "bwrap",
        "--dev-bind",
        "/",
        "/",
        "--bind",
        places["opt"],
        "/opt",
        "--bind",
        places["srv"],
        "/srv",
        "sh",
        repository / "hub" / "tljh_settings.sh",
        repository,
        places["environment"],
    ]
    subprocess.run(command, check=True)
    config = places["opt"] / "tljh/config/jupyterhub_config.d/gpucourse.py"
    assert config.read_text() == (repository / "hub" / "tljh.py").read_text()
    assert sorted(path.name for path in (places["environment"] / "etc/jupyter").iterdir()) == [
        "jupyter_server_config.json",
        "nbgrader_config.py",
    ]
    root = Path(settings(repository / "hub" / "nbgrader_config.py").Exchange.root)
    exchange = places["srv"] / root.relative_to("/srv")
    assert exchange.stat().st_mode & 0o777 == 0o777
    config.write_text("mine")
    subprocess.run(command, check=True)
    assert config.read_text() == "mine"


def test_one_machines_server_starts_with_a_network_and_without(
    repository: Path, tmp_path: Path
) -> None:
    for name, text in (
        ("gitpuller", f'echo "$@" > {tmp_path}/asked\nexit 1\n'),
        ("jupyterhub-singleuser", f'echo "$@" > {tmp_path}/started\n'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)
    words = littlest(repository).Spawner.cmd
    start = repository / Path(words[1]).relative_to(IN_IMAGE)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    subprocess.run(
        [words[0], start, *words[2:], "--ip=127.0.0.1", "--port=1 2"],
        check=True,
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
    )
    assert (tmp_path / "asked").read_text().split() == [
        repository_url(repository),
        "main",
        hub.FOLDER,
    ]
    assert (tmp_path / "started").read_text() == "--ip=127.0.0.1 --port=1 2\n"
