"""Trial of a class on a real JupyterHub: links, edits that survive, a graded assignment.

    npm install --prefix FOLDER configurable-http-proxy
    python -m lab.trials.hub --proxy FOLDER/node_modules/.bin/configurable-http-proxy

The hub, its proxy and all servers are the real programs. The settings of hub/values.yaml and
hub/grading.yaml apply unless they need Kubernetes, and each server runs with its own user ID
(lab/trials/hub_config.py). The trial needs Linux, root and requirements/hub.txt.

The steps are: a browser opens a lecture by its link, the learner edits it, an upstream change
follows, and the link is opened again; two learners submit project 1, with all answers and with
none; the teacher collects, grades and returns the work; and access rights are checked. A step that
fails ends the trial.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import requests

from gpucourse.publish.release import handout as release
from gpucourse.publish.source.reader import read_course
from lab.benchmarks.report import write
from lab.trials import hub_place
from lab.trials.hub_links import walk_links
from lab.trials.hub_place import (
    CHECKOUT,
    CLASS_ADDRESS,
    COLLEAGUE,
    CURIOUS,
    EXCHANGE,
    NEWCOMER,
    PACKAGES,
    REPOSITORY,
    RIGHT,
    STARTER,
    TEACHER,
    USERS,
    Hub,
    Walk,
    expect,
    memory,
    server_of,
)

NAME = "hub"
PROJECT = "01_fill_a_histogram"
NOTEBOOK = f"projects/{PROJECT}/{PROJECT}.ipynb"


def command(
    hub: Hub, user: str, *words: str, cwd: str = CHECKOUT, within: tuple[str, ...] = ()
) -> str:
    """Run a command in a terminal of the user's server. Raises RuntimeError if it fails."""
    done = hub.terminal(user, *words, cwd=cwd, within=within)
    expect(done.returncode == 0, f"{user}: {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


# --- an assignment ----------------------------------------------------------------------------


def answer(hub: Hub, user: str) -> None:
    """Write the solution's answers into the learner's own notebook."""
    file = hub.home(user) / CHECKOUT / NOTEBOOK
    notebook = json.loads(file.read_text())
    answers = {
        cell["metadata"]["nbgrader"]["grade_id"]: cell["source"]
        for cell in json.loads((REPOSITORY / "solutions" / f"{PROJECT}.ipynb").read_text())["cells"]
        if cell["metadata"].get("nbgrader", {}).get("solution")
    }
    for cell in notebook["cells"]:
        cell["source"] = answers.get(
            cell["metadata"].get("nbgrader", {}).get("grade_id"), cell["source"]
        )
    file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def walk_assignment(walk: Walk, hub: Hub) -> None:
    """Go through an assignment: release, two submissions, grades and feedback."""
    grading = f"{CHECKOUT}/grading"
    with walk.step("release") as seen:
        command(hub, TEACHER, "nbgrader", "generate_assignment", PROJECT, cwd=grading)
        command(hub, TEACHER, "nbgrader", "release_assignment", PROJECT, cwd=grading)
        inbound = EXCHANGE / "gpucourse" / "inbound"
        seen["mode of inbound"] = oct(inbound.stat().st_mode & 0o7777)
    token = hub.token_of(RIGHT)
    with walk.step("the learner's list has it, as downloaded already"):
        found = hub.page(RIGHT, "assignments?course_id=gpucourse", token).json()["value"]
        expect(
            [(one["assignment_id"], one["status"]) for one in found] == [(PROJECT, "fetched")],
            found,
        )
    answer(hub, RIGHT)
    with walk.step("Submit, as the button of the assignment list does it"):
        said = hub.page(
            RIGHT, "assignments/submit", token, "POST", course_id="gpucourse", assignment_id=PROJECT
        ).json()
        expect(said["success"], said)
    with walk.step("nbgrader submit in a terminal, of a project as it was released"):
        command(hub, STARTER, "nbgrader", "submit", PROJECT)
    with walk.step("collect") as seen:
        said = command(hub, TEACHER, "nbgrader", "collect", PROJECT, cwd=grading)
        expect("cheating" not in said, said)
        seen["from"] = sorted(
            one.name for one in (hub.home(TEACHER) / CHECKOUT / "grading" / "submitted").iterdir()
        )
        expect(seen["from"] == [hub.student(RIGHT), hub.student(STARTER)], seen)
    with walk.step("gpucourse grade") as seen:
        command(hub, TEACHER, "gpucourse", "grade", cwd=grading)
        verdicts = hub.home(TEACHER) / CHECKOUT / "grading" / "verdicts"
        for user in (RIGHT, STARTER):
            path = verdicts / hub.student(user) / PROJECT / f"{PROJECT}.json"
            verdict = json.loads(path.read_text())
            seen[user] = verdict["earned"]
            seen["isolation"] = verdict["isolation"]
        # The project's remaining points are for text answers, which a person reads.
        expect(seen[RIGHT] == verdict["points"] > 0 == seen[STARTER], seen)
    with walk.step("feedback: generate and release"):
        command(hub, TEACHER, "nbgrader", "generate_feedback", PROJECT, cwd=grading)
        command(hub, TEACHER, "nbgrader", "release_feedback", PROJECT, cwd=grading)
    with walk.step("feedback: fetched by the learners"):
        said = hub.page(
            RIGHT,
            "assignments/fetch_feedback",
            token,
            "POST",
            course_id="gpucourse",
            assignment_id=PROJECT,
        ).json()
        expect(said["success"], said)
        command(hub, STARTER, "nbgrader", "fetch_feedback", PROJECT)
        for user, score in ((RIGHT, f"{verdict['points']:g}"), (STARTER, "0")):
            project = hub.home(user) / CHECKOUT / "projects" / PROJECT
            pages = list((project / "feedback").rglob("*.html"))
            expect(len(pages) == 1, pages)
            text = re.sub(r"<[^>]+>", "", pages[0].read_text())
            expect(re.search(rf"Score: {score}(\.0)? /", text), f"{user}: no score {score}")
            expect("HIDDEN TESTS" not in text, f"{user}: hidden tests are in the feedback")


# --- access rights ----------------------------------------------------------------------------


def walk_rights(walk: Walk, hub: Hub) -> None:
    """Check that teachers have Formgrader, and that learners lack others' rights."""
    own, colleague, curious = (hub.token_of(user) for user in (TEACHER, COLLEAGUE, CURIOUS))
    with walk.step("formgrader: the teacher and a colleague, nobody else") as seen:
        page = "formgrader/manage_assignments"
        for who, user, token in (
            ("teacher", TEACHER, own),
            ("colleague, on the teacher's server", TEACHER, colleague),
            ("learner, on the teacher's server", TEACHER, curious),
            ("learner, on the own server", CURIOUS, curious),
        ):
            seen[who] = hub.page(user, page, token).status_code
        expect(list(seen.values()) == [200, 200, 403, 404], seen)
        found = hub.page(TEACHER, "formgrader/api/assignments", colleague).json()
        counts = {one["name"]: one["num_submissions"] for one in found}
        expect(counts[PROJECT] == 2, found)
    with walk.step("a learner in the exchange") as seen:
        inbound = EXCHANGE / "gpucourse" / "inbound"
        theirs = next(inbound.glob(f"{hub.student(RIGHT)}+*"))
        for name, words in {
            "list what was handed in": ("ls", str(inbound)),
            "delete what was handed in": ("sh", "-c", f"rm -r {inbound}/{hub.student(RIGHT)}+*"),
            "change a submission whose name is known": ("touch", f"{theirs}/{PROJECT}.ipynb"),
            "change what is released": (
                "touch",
                str(EXCHANGE / "gpucourse" / "outbound" / PROJECT / f"{PROJECT}.ipynb"),
            ),
        }.items():
            seen[name] = "refused" if hub.terminal(CURIOUS, *words).returncode else "ALLOWED"
        expect(set(seen.values()) == {"refused"}, seen)
    with walk.step("work handed in under another's name shows whose it is"):
        before = set(inbound.iterdir())
        command(hub, CURIOUS, "nbgrader", "submit", PROJECT, f"--student={hub.student(RIGHT)}")
        (forged,) = set(inbound.iterdir()) - before
        expect(forged.name.startswith(f"{hub.student(RIGHT)}+"), forged.name)
        owners = {user: server_of(user).uids().real for user in (RIGHT, CURIOUS)}
        expect(
            theirs.stat().st_uid == owners[RIGHT] != owners[CURIOUS] == forged.stat().st_uid, owners
        )


def walk_isolation(walk: Walk, hub: Hub) -> None:
    """Run the grader in pods with stricter isolation."""
    grade = ("gpucourse", "regrade", STARTER)
    grading = f"{CHECKOUT}/grading"
    with walk.step("grading where a pod hides part of /proc, as containers do") as seen:
        command(hub, TEACHER, *grade, cwd=grading, within=("--tmpfs", "/proc/fs"))
        verdict = hub.home(TEACHER) / CHECKOUT / "grading" / "verdicts" / STARTER / PROJECT
        seen["isolation"] = json.loads((verdict / f"{PROJECT}.json").read_text())["isolation"]
        expect(seen["isolation"] == "namespaces", seen)
    with walk.step("grading where user namespaces are forbidden") as seen:
        closed = ("bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/")
        done = hub.terminal(TEACHER, *closed, *grade, cwd=grading)
        said = " ".join((done.stdout + done.stderr).split())
        seen["said"] = said[said.find("Not graded") :][:160]
        expect(done.returncode != 0 and "only at level 'limits'" in seen["said"], seen)


# --- a class without answers ------------------------------------------------------------------


def walk_class(walk: Walk, hub: Hub) -> None:
    """Check what a learner's terminal can read on the hub of a graded class."""
    with walk.step("a class without answers: a learner's first start"):
        hub.start(NEWCOMER)
    with walk.step("no answer can be read in the home or in the image") as seen:
        for place in (f"{CHECKOUT}/solutions", "/srv/course/solutions", "/srv/course/course"):
            expect(hub.terminal(NEWCOMER, "ls", place).returncode != 0, f"{place} is there")
        everything = ("find", "/srv/course", str(PACKAGES), "/home/jovyan", "-type", "f")
        listed = command(hub, NEWCOMER, *everything, cwd=".").splitlines()
        found = {
            name: Path(name.replace("/home/jovyan", str(hub.home(NEWCOMER)))).read_bytes()
            for name in listed
        }
        expect(any(name.endswith(NOTEBOOK) for name in found), "the class's tree did not arrive")
        leaks = release.leaks(found, release.secrets(read_course(REPOSITORY)[1]))
        expect(not leaks, leaks[:3])
        seen["files that a learner can read"] = len(found)
    with walk.step("a home with a clone of the full repository: no server, and the reason") as seen:
        try:
            hub.start(CURIOUS)
        except RuntimeError as error:
            seen["the hub said"] = str(error)[:80]
        else:
            expect(False, "the server started")
        seen["the log says"] = (hub.home(CURIOUS) / ".gpu-course.log").read_text().strip()
        expect(CLASS_ADDRESS in seen["the log says"], seen)


# --- the whole trial --------------------------------------------------------------------------


def inside(proxy: Path) -> dict:
    """Run the whole trial inside the namespaces."""
    hub_place.furnish(proxy)
    hub_place.run("sh", hub_place.COURSE / "hub/set_up.sh")
    # Not accessible to users of the system, like files on a hub's own machine.
    folder = Path(tempfile.mkdtemp(prefix="hub-", dir="/srv"))
    hub_place.build_wheels(folder / "wheels")
    walk = Walk()
    with walk.step("hub and proxy answer"):
        hub = Hub(folder, proxy, TEACHER, [COLLEAGUE], USERS)
        try:
            hub.wait_for(lambda: requests.get(f"{hub.address}/hub/api", timeout=30).ok)
        except RuntimeError:
            print(hub.log(), file=sys.stderr)
            raise
    try:
        walk_links(walk, hub)
        with walk.step("the teacher's server, and the clone") as seen:
            hub.start(TEACHER)
            seen["MB of the server"] = memory(TEACHER)
        with walk.step("two learners' servers, one after the other"):
            hub.start(STARTER)
            hub.start(CURIOUS)
        walk_assignment(walk, hub)
        walk_rights(walk, hub)
        walk_isolation(walk, hub)
        with walk.step("a server again, upstream not to be reached"):
            hub.stop_server(CURIOUS)
            hub_place.UPSTREAM.rename(hub_place.UPSTREAM.with_suffix(".away"))
            hub.start(CURIOUS)
            hub.stop_server(CURIOUS)
        hub.stop()
        hub_place.furnish_class(folder / "wheels", folder / "class")
        hub = Hub(folder, proxy, TEACHER, [COLLEAGUE], [*USERS, NEWCOMER], CLASS_ADDRESS)
        hub.wait_for(lambda: requests.get(f"{hub.address}/hub/api", timeout=30).ok)
        walk_class(walk, hub)
    except BaseException:
        print("\n".join(hub.log().splitlines()[-60:]), file=sys.stderr)
        raise
    finally:
        hub.stop()
    return walk.steps


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.trials.hub")
    parser.add_argument(
        "--proxy",
        help="path of configurable-http-proxy if it is not on PATH",
        default=shutil.which("configurable-http-proxy"),
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    missing = hub_place.lacking(options.proxy)
    if missing:
        sys.exit("This machine lacks\n- " + "\n- ".join(missing))
    if not options.inside:
        sys.exit(hub_place.enter("lab.trials.hub", ["--proxy", options.proxy]))
    load = os.getloadavg()[0]
    steps = inside(Path(options.proxy))
    write(
        NAME,
        {
            "command": "python -m lab.trials.hub",
            "load of the machine before": round(load, 1),
            "programs": {
                name: version(name)
                for name in ("jupyterhub", "jupyterlab", "nbgrader", "nbgitpuller")
            },
            "steps": steps,
        },
    )


if __name__ == "__main__":
    main()
