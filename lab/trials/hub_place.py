"""Machine for lab/trials/hub.py: separate namespaces, with a hub and people's servers.

Everything happens in mount and process namespaces. Files written to /etc do not reach the real
/etc, users are lines of a temporary passwd file, and no process outlives the command.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import requests
import yaml

from gpucourse.course import projects

REPOSITORY = Path(__file__).resolve().parents[2]
#: The course's folder according to the chart's values; in the trial, git clones it from UPSTREAM.
COURSE, EXCHANGE, HOMES = Path("/srv/course"), Path("/srv/nbgrader/exchange"), Path("/srv/homes")
UPSTREAM = Path("/srv/upstream.git")
#: The packages as in the image, installed from wheels.
PACKAGES = Path("/srv/packages")
#: A class's repository without answers, and its address in the settings.
CLASS, CLASS_ADDRESS = Path("/srv/class.git"), "https://git.example.org/our-class.git"
CHECKOUT = "gpu-course"
TEACHER, COLLEAGUE, RIGHT, STARTER, CURIOUS = "teacher", "colleague", "ada", "ben", "eve"
#: Only in the class without answers: a home directory into which no repository has been cloned.
NEWCOMER = "fay"
USERS = [TEACHER, COLLEAGUE, RIGHT, STARTER, CURIOUS]
PATIENCE = 300


class Walk:
    """Steps so far, with the seconds and the result of each."""

    def __init__(self) -> None:
        self.steps: dict[str, dict] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[dict]:
        begun = time.perf_counter()
        seen: dict = {}
        yield seen
        self.steps[name] = {"s": round(time.perf_counter() - begun, 1), **seen}
        print(f"{self.steps[name]['s']:6.1f} s  {name} {seen or ''}", flush=True)


def expect(held: object, message: object) -> None:
    if not held:
        raise RuntimeError(str(message))


def lacking(proxy: str | None) -> list[str]:
    """Return what this machine lacks for the trial; empty if nothing is missing."""
    missing = [] if os.getuid() == 0 else ["root's rights: learners are users of the system here"]
    for program in ("bwrap", "unshare", "setpriv", "git"):
        if shutil.which(program) is None:
            missing.append(f"the program {program}")
    for module in ("jupyterhub", "nbgitpuller"):
        try:
            __import__(module)
        except ImportError:
            missing.append(f"{module}: pip install --require-hashes -r requirements/hub.txt")
    if proxy is None:
        missing.append(
            "JupyterHub's proxy: npm install configurable-http-proxy, and its folder "
            "node_modules/.bin on PATH, or --proxy FILE"
        )
    return missing


def enter(module: str, arguments: list[str]) -> int:
    """Run this command again in separate namespaces; return its exit code."""
    return subprocess.run(
        [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            sys.executable,
            "-m",
            module,
            "--inside",
            *arguments,
        ],
        cwd=REPOSITORY,
    ).returncode


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def furnish(proxy: Path) -> None:
    """Create the image's files: /etc, /srv/course, an empty /home, and the course's repository."""
    needed = {Path(sys.base_prefix), Path(sys.prefix), REPOSITORY, proxy.resolve().parents[2]}
    run("mount", "--make-rprivate", "/")
    hold = Path("/mnt")
    run("mount", "-t", "tmpfs", "tmpfs", hold)
    for number, folder in enumerate(sorted(needed)):
        (hold / str(number)).mkdir()
        run("mount", "--bind", folder, hold / str(number))
    for folder in (Path("/home"), Path("/srv"), Path.home()):
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    for number, folder in enumerate(sorted(needed)):
        if not folder.exists():
            folder.mkdir(parents=True)
            run("mount", "--bind", hold / str(number), folder)
    for folder in (Path("/home/jovyan"), COURSE, EXCHANGE, HOMES):
        folder.mkdir(parents=True)
    # This is the initContainer of hub/grading.yaml.
    EXCHANGE.chmod(0o777)
    # The files that hub/Dockerfile copies into the image, without lessons.
    for name in ("hub", "binder"):
        (COURSE / name).mkdir()
        run("mount", "--bind", "-o", "ro", REPOSITORY / name, COURSE / name)
    layers = hold / "etc"
    for name in ("upper", "work"):
        (layers / name).mkdir(parents=True)
    run(
        "mount",
        "-t",
        "overlay",
        "overlay",
        "-o",
        f"lowerdir=/etc,upperdir={layers}/upper,workdir={layers}/work",
        "/etc",
    )
    run("git", "clone", "-q", "--bare", REPOSITORY, UPSTREAM)
    run("git", "-C", UPSTREAM, "branch", "-f", "main", "HEAD")
    run("git", "-C", UPSTREAM, "symbolic-ref", "HEAD", "refs/heads/main")
    address = (COURSE / "hub/repository").read_text().strip()
    # The links are the same as for learners, but git uses the copy, which belongs to root.
    Path("/etc/gitconfig").write_text(
        f'[url "{UPSTREAM}"]\n\tinsteadOf = {address}\n'
        f'[url "{CLASS}"]\n\tinsteadOf = {CLASS_ADDRESS}\n[safe]\n\tdirectory = *\n'
    )


def build_wheels(folder: Path) -> None:
    """Build the packages as wheels into ``folder``, and install them where servers find them."""
    uv = (sys.executable, "-m", "uv", "-q")
    for package in projects.PACKAGES:
        run(
            *uv,
            "build",
            "--wheel",
            "--python",
            sys.executable,
            "--out-dir",
            folder,
            REPOSITORY / package,
        )
    run(*uv, "pip", "install", "--no-deps", "--target", PACKAGES, *folder.glob("*.whl"))


def furnish_class(wheels: Path, folder: Path) -> None:
    """Create the class's tree and push it to its address."""
    run(
        sys.executable, "-m", "gpucourse.publish.release.class_tree", wheels, folder, cwd=REPOSITORY
    )
    run("git", "clone", "-q", "--bare", folder / CHECKOUT, CLASS)


def without_checkout() -> list[str]:
    """Return bubblewrap options that hide this checkout from a server, except its programs."""
    environment = Path(sys.prefix)
    inside = ["--bind", str(environment), str(environment)]
    return ["--tmpfs", str(REPOSITORY), *(inside if REPOSITORY in environment.parents else [])]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Hub:
    """JupyterHub with its proxy, and the requests of an administrator."""

    #: JupyterHub's configuration, beside this file.
    configuration = "hub_config.py"

    def __init__(
        self,
        folder: Path,
        proxy: Path,
        teacher: str,
        graders: list[str],
        users: list[str],
        repository: str = "",
    ) -> None:
        self.folder = folder
        self.password, self.token = secrets.token_hex(16), secrets.token_hex(16)
        self.address = f"http://127.0.0.1:{free_port()}"
        trial = {
            "address": self.address,
            "hub port": free_port(),
            "proxy port": free_port(),
            "proxy": [str(proxy)],
            "database": str(folder / "hub.sqlite"),
            "users": users,
            "password": self.password,
            "token": self.token,
            "values": {
                "custom": {"teacher": teacher, "graders": graders},
                "singleuser": {"extraEnv": {"COURSE_REPOSITORY": repository}},
            },
        }
        (folder / "trial.yaml").write_text(yaml.safe_dump(trial))
        environment = {
            **os.environ,
            "HUB_TRIAL": str(folder / "trial.yaml"),
            "HUB_TRIAL_REPOSITORY": str(REPOSITORY),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }
        with (folder / "hub.log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "jupyterhub",
                    "-f",
                    str(Path(__file__).with_name(self.configuration)),
                ],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def home(self, user: str) -> Path:
        """Return the user's home directory, as seen from this process."""
        return HOMES / user

    def student(self, user: str) -> str:
        """Return nbgrader's name for the user."""
        return user

    def terminal(
        self, user: str, *command: str, cwd: str = ".", within: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess:
        """Run a command like a terminal of the user's server, in a folder of the home directory.

        ``within`` is put before the command.
        """
        server = server_of(user)
        uid, gid = server.uids().real, server.gids().real
        return subprocess.run(
            [
                "bwrap",
                "--dev-bind",
                "/",
                "/",
                "--tmpfs",
                str(HOMES),
                "--bind",
                str(self.home(user)),
                "/home/jovyan",
                *without_checkout(),
                *within,
                "--chdir",
                f"/home/jovyan/{cwd}",
                "setpriv",
                f"--reuid={uid}",
                f"--regid={gid}",
                "--clear-groups",
                "--no-new-privs",
                *command,
            ],
            env=server.environ(),
            text=True,
            capture_output=True,
        )

    def wait_for(self, there: Callable[[], bool]) -> None:
        """Wait until ``there()`` is true. Raises RuntimeError if it never is or the hub ends."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if there():
                    return
            except requests.ConnectionError:
                pass
            time.sleep(0.3)
        raise RuntimeError("the hub does not answer")

    def log(self) -> str:
        """Return the hub's log without its proxy's."""
        lines = (self.folder / "hub.log").read_text(errors="replace").splitlines()
        return "\n".join(
            line
            for line in lines
            if line.startswith(("[", "Trace", " ")) and "ConfigProxy" not in line
        )

    def api(self, method: str, path: str, **body: str) -> requests.Response:
        """Send a request to the hub as its administrator."""
        return requests.request(
            method,
            f"{self.address}/hub/api/{path}",
            timeout=PATIENCE,
            json=body or None,
            headers={"Authorization": f"token {self.token}"},
        )

    def start(self, user: str) -> float:
        """Start the user's server and return the seconds until it answers."""
        begun = time.perf_counter()
        answer = self.api("POST", f"users/{user}/servers/")
        if not answer.ok:
            raise RuntimeError(f"{user}: {answer.text}")
        self.wait_for(
            lambda: self.api("GET", f"users/{user}").json()["servers"].get("", {}).get("ready")
        )
        return time.perf_counter() - begun

    def stop_server(self, user: str) -> None:
        self.api("DELETE", f"users/{user}/server")
        self.wait_for(lambda: not self.api("GET", f"users/{user}").json()["servers"])

    def token_of(self, user: str) -> str:
        """Return a token for requests of that user."""
        return self.api("POST", f"users/{user}/tokens", note="trial").json()["token"]

    def page(
        self, user: str, path: str, token: str, method: str = "GET", **form: str
    ) -> requests.Response:
        """Return the response of the server of ``user`` to a request with the token."""
        return requests.request(
            method,
            f"{self.address}/user/{user}/{path}",
            timeout=PATIENCE,
            data=form or None,
            headers={"Authorization": f"token {token}"},
            allow_redirects=False,
        )

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def server_of(user: str) -> psutil.Process:
    """Return the process of the user's server."""
    for process in psutil.process_iter():
        try:
            if (
                "jupyterhub-singleuser" in " ".join(process.cmdline())
                and process.name() != "bwrap"
                and process.environ()["JUPYTERHUB_USER"] == user
            ):
                return process
        except (psutil.Error, KeyError):
            continue
    raise RuntimeError(f"no server of {user}")


def notebook_sources(path: Path) -> str:
    """Return the sources of all cells of a notebook, joined."""
    return "\n".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])


def memory(user: str) -> float:
    """Return the megabytes (PSS) of the user's server without kernels."""
    return round(server_of(user).memory_full_info().pss / 1e6, 1)
