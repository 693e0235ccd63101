"""Trial of a class with The Littlest JupyterHub's configuration, from release to feedback.

    pip install FOLDER jupyterhub-systemdspawner      (a clone of the-littlest-jupyterhub)
    npm install --prefix FOLDER configurable-http-proxy
    python -m lab.trials.tljh --proxy FOLDER/node_modules/.bin/configurable-http-proxy

The trial runs TLJH's own configuration, the system users that its spawner creates, and hub/tljh.py
with the setup of hub/tljh_settings.sh. It does not run TLJH's installer (conda, packages), its
proxy (traefik) and systemd. Two commands of this file replace systemd-run and systemctl: they
start a server as the user and report whether it runs. Limits of memory and processors therefore do
not apply. The trial needs Linux, root and requirements/hub.txt.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import requests
import yaml

from lab.benchmarks.report import write
from lab.trials import hub_place
from lab.trials.hub import PROJECT, command, walk_assignment, walk_rights
from lab.trials.hub_place import (
    CHECKOUT,
    COLLEAGUE,
    COURSE,
    CURIOUS,
    RIGHT,
    STARTER,
    TEACHER,
    USERS,
    Hub,
    Walk,
    expect,
    server_of,
)

MODULE = "lab.trials.tljh"
PREFIX, ENVIRONMENT = Path("/opt/tljh"), Path("/opt/gpu-course")

# The spawner's arguments for systemd-run: a unit, a user, a folder, variables and a command.
SYSTEMD_RUN = """\
import os, shlex, subprocess, sys
options, words = {}, sys.argv[1:]
while words[0].startswith("--"):
    name, given, value = words.pop(0)[2:].partition("=")
    value = value if given else words.pop(0)
    if name == "property":
        name, _, value = value.partition("=")
    options[name] = value
lines = shlex.split(open(options["EnvironmentFile"]).read())
environment = dict(line.split("=", 1) for line in lines)
closed = ["--no-new-privs"] if options.get("NoNewPrivileges") == "yes" else []
log = open("/run/" + options["unit"] + ".log", "ab")
process = subprocess.Popen(
    ["setpriv", "--reuid=" + options["uid"], "--regid=" + options["gid"], "--init-groups", *closed,
     *words], env=environment, cwd=options["working-directory"], stdout=log, stderr=log,
    start_new_session=True)
open("/run/" + options["unit"] + ".pid", "w").write(str(process.pid))
"""
SYSTEMCTL = """\
import os, signal, sys, time
if sys.argv[1] == "--version":
    sys.exit(print("systemd 255 (none: a trial)"))
verb, unit = sys.argv[1:3]
def runs():
    # One that has ended stays in the table of processes, since nobody here asks how it ended.
    try:
        pid = int(open("/run/" + unit + ".pid").read())
        state = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return 0
    return 0 if state == "Z" else pid
if verb == "stop" and runs():
    os.killpg(runs(), signal.SIGTERM)
    while runs():
        time.sleep(0.1)
sys.exit(not runs() if verb == "is-active" else verb == "is-failed")
"""


class Littlest(Hub):
    """JupyterHub as TLJH configures it, where people are system users with homes in /home."""

    configuration = "tljh_config.py"

    def home(self, user: str) -> Path:
        return Path("/home", f"jupyter-{user}")

    def student(self, user: str) -> str:
        return f"jupyter-{user}"

    def terminal(
        self, user: str, *command: str, cwd: str = ".", within: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess:
        server = server_of(user)
        uid, gid = server.uids().real, server.gids().real
        return subprocess.run(
            [
                *within,
                "setpriv",
                f"--reuid={uid}",
                f"--regid={gid}",
                "--init-groups",
                "--no-new-privs",
                *command,
            ],
            cwd=self.home(user) / cwd,
            env=server.environ(),
            text=True,
            capture_output=True,
        )


def furnish(proxy: Path, folder: Path) -> None:
    """Add the results of TLJH's installer and hub/tljh.sh to the machine of :mod:`.hub_place`."""
    hub_place.furnish(proxy)
    hub_place.run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/opt")
    hub_place.run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name, program in (("systemd-run", SYSTEMD_RUN), ("systemctl", SYSTEMCTL)):
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{sys.executable}\n{program}")
        path.chmod(0o755)
    os.environ["PATH"] = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    (PREFIX / "config").mkdir(parents=True)
    (PREFIX / "state").mkdir()
    (PREFIX / "config" / "config.yaml").write_text(
        yaml.safe_dump({"limits": {"memory": "3G"}, "services": {"cull": {"enabled": False}}})
    )
    for group in ("jupyterhub-admins", "jupyterhub-users"):
        hub_place.run("groupadd", "--force", group)
    ENVIRONMENT.mkdir()
    (ENVIRONMENT / "bin").symlink_to(Path(sys.prefix) / "bin")
    # This Python's own settings remain; the course's settings are added to them.
    etc = Path(sys.prefix) / "etc/jupyter"
    (folder / "etc").mkdir()
    hub_place.run("mount", "-t", "tmpfs", "tmpfs", folder / "etc")
    for name in ("upper", "work"):
        (folder / "etc" / name).mkdir()
    hub_place.run(
        "mount",
        "-t",
        "overlay",
        "overlay",
        "-o",
        f"lowerdir={etc},upperdir={folder}/etc/upper,workdir={folder}/etc/work",
        etc,
    )
    hub_place.run("sh", COURSE / "hub/tljh_settings.sh", COURSE, sys.prefix)
    settings = PREFIX / "config/jupyterhub_config.d/gpucourse.py"
    settings.write_text(
        settings.read_text().replace("GRADERS: list[str] = []", f"GRADERS = [{COLLEAGUE!r}]")
    )


def walk_view(walk: Walk, hub: Hub) -> None:
    """Check what a learner's server shows."""
    with walk.step("a learner is a user of the system, without sudo"):
        done = hub.terminal(RIGHT, "id", "--name", "--user")
        expect(done.stdout.strip() == f"jupyter-{RIGHT}", done)
        other = hub.terminal(CURIOUS, "ls", str(hub.home(RIGHT)))
        expect(other.returncode != 0 and "Permission denied" in other.stderr, other)
        expect("jupyterhub-admins" not in hub.terminal(RIGHT, "id").stdout, "an administrator")
    with walk.step("the newest notebooks, and no answers in the list of files") as seen:
        expect((hub.home(RIGHT) / CHECKOUT / "solutions").is_dir(), "the clone is not whole")
        listed = {}
        for user in (RIGHT, TEACHER):
            found = hub.page(user, f"api/contents/{CHECKOUT}", hub.token_of(user)).json()
            listed[user] = {one["name"] for one in found["content"]}
        seen["a learner sees"] = sorted(listed[RIGHT])
        expect(
            "lectures" in listed[RIGHT] and not {"solutions", "grading"} & listed[RIGHT],
            listed[RIGHT],
        )
        expect({"solutions", "grading"} <= listed[TEACHER], listed[TEACHER])


def inside(proxy: Path) -> dict:
    """Run the whole trial inside the namespaces."""
    folder = Path(tempfile.mkdtemp(prefix="tljh-"))
    furnish(proxy, folder)
    walk = Walk()
    with walk.step("hub and proxy answer"):
        hub = Littlest(folder, proxy, TEACHER, [COLLEAGUE], USERS)
        try:
            hub.wait_for(lambda: requests.get(f"{hub.address}/hub/api", timeout=30).ok)
        except RuntimeError:
            print(hub.log(), file=sys.stderr)
            raise
    try:
        for user in (TEACHER, RIGHT, STARTER, CURIOUS):
            with walk.step(f"the server of {user}"):
                hub.start(user)
        walk_view(walk, hub)
        walk_assignment(walk, hub)
        walk_rights(walk, hub)
        with walk.step("collect names who handed in under another's name") as seen:
            said = command(
                hub, TEACHER, "nbgrader", "collect", "--update", PROJECT, cwd=f"{CHECKOUT}/grading"
            )
            seen["said"] = next(line for line in said.splitlines() if "claims to be" in line)[-120:]
            expect(f"is owned by jupyter-{CURIOUS}" in seen["said"], said)
        with walk.step("a server again, upstream not to be reached"):
            hub.stop_server(CURIOUS)
            hub_place.UPSTREAM.rename(hub_place.UPSTREAM.with_suffix(".away"))
            hub.start(CURIOUS)
    except BaseException:
        print("\n".join(hub.log().splitlines()[-60:]), file=sys.stderr)
        for log in sorted(Path("/run").glob("jupyter-*.log")):
            print(f"{log.name}: {log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
        raise
    finally:
        hub.stop()
    return walk.steps


def main() -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    parser.add_argument(
        "--proxy",
        help="path of configurable-http-proxy if it is not on PATH",
        default=shutil.which("configurable-http-proxy"),
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    missing = hub_place.lacking(options.proxy)
    for module in ("tljh", "systemdspawner"):
        try:
            __import__(module)
        except ImportError:
            missing.append(
                f"{module}: pip install a clone of the-littlest-jupyterhub, and "
                "jupyterhub-systemdspawner"
            )
    if missing:
        sys.exit("This machine lacks\n- " + "\n- ".join(missing))
    if not options.inside:
        sys.exit(hub_place.enter(MODULE, ["--proxy", options.proxy]))
    load = os.getloadavg()[0]
    steps = inside(Path(options.proxy))
    write(
        "tljh",
        {
            "command": f"python -m {MODULE}",
            "load of the machine before": round(load, 1),
            "programs": {
                name: version(name)
                for name in (
                    "the-littlest-jupyterhub",
                    "jupyterhub-systemdspawner",
                    "jupyterhub",
                    "jupyterlab",
                    "nbgrader",
                    "nbgitpuller",
                )
            },
            "not tried": "installer, traefik, systemd and so the limits",
            "steps": steps,
        },
    )


if __name__ == "__main__":
    main()
