"""A class on a real JupyterHub: links, edits that survive, an assignment until its feedback.

    npm install --prefix FOLDER configurable-http-proxy
    python -m benchmarks.hub --proxy FOLDER/node_modules/.bin/configurable-http-proxy

The hub, its proxy and everybody's servers are the real programs; hub/values.yaml and
hub/grading.yaml are in force as far as they do not need Kubernetes, and each server runs as a user
number of its own (benchmarks/hub_config.py). It wants Linux, root and requirements/hub.txt.

The walk: a lecture by its link in a browser, an edit, news from upstream, the link again; two
learners hand in project 1, with all answers and with none; the teacher collects, grades, returns;
who may not look where. A step that fails ends it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import requests

from benchmarks import hub_place
from benchmarks.hub_place import COURSE, EXCHANGE, HOMES, REPOSITORY, Hub, in_pod, server_of
from benchmarks.report import write

NAME = "hub"
PROJECT = "01_fill_a_histogram"
NOTEBOOK = f"projects/{PROJECT}/{PROJECT}.ipynb"
TEACHER, COLLEAGUE, RIGHT, STARTER, CURIOUS = "teacher", "colleague", "ada", "ben", "eve"
USERS = [TEACHER, COLLEAGUE, RIGHT, STARTER, CURIOUS]
CHECKOUT = "gpu-course"


class Walk:
    """The steps so far: seconds of each, and what it showed."""

    def __init__(self) -> None:
        self.steps: dict[str, dict] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[dict]:
        begun, seen = time.perf_counter(), {}
        yield seen
        self.steps[name] = {"s": round(time.perf_counter() - begun, 1), **seen}
        print(f"{self.steps[name]['s']:6.1f} s  {name} {seen or ''}", flush=True)


def expect(held: bool, message: object) -> None:
    if not held:
        raise RuntimeError(str(message))


def command(user: str, *words: str, cwd: str = f"/home/jovyan/{CHECKOUT}",
            within: tuple[str, ...] = ()) -> str:
    """Output of a command in a terminal of the user's server. Raises RuntimeError if it fails."""
    done = in_pod(user, *words, cwd=cwd, within=within)
    expect(done.returncode == 0, f"{user}: {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def memory(user: str) -> float:
    """Megabytes of the user's server without kernels, proportional."""
    return round(server_of(user).memory_full_info().pss / 1e6, 1)


# --- links ------------------------------------------------------------------------------------


def links(hub: Hub) -> dict[str, str]:
    """Title → link, as the command prints them for this hub."""
    table = subprocess.run([sys.executable, "-m", "gpucourse.build.hub", hub.address],
                           cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"\| \[(.*?)\]\((.*?)\) \|", table))


def upstream_changes(change: Callable[[dict], None], path: str, message: str) -> None:
    """A commit to the course's repository that changes a notebook."""
    with tempfile.TemporaryDirectory() as folder:
        hub_place.run("git", "clone", "-q", hub_place.UPSTREAM, folder)
        file = Path(folder, path)
        notebook = json.loads(file.read_text())
        change(notebook)
        file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        hub_place.run("git", "-c", "user.name=Course", "-c", "user.email=course@example.org",
                      "commit", "-qam", message, cwd=Path(folder))
        hub_place.run("git", "push", "-q", "origin", "HEAD:main", cwd=Path(folder))


def walk_links(walk: Walk, hub: Hub) -> None:
    """A learner in a browser: link, log in, edit, news from upstream, the link again."""
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from jupyter_lab import Tab, chromium
    from playwright.sync_api import expect as see

    see.set_options(timeout=1000 * hub_place.PATIENCE)
    address = links(hub)["Why GPUs, and when not"]
    lecture = HOMES / RIGHT / CHECKOUT / "lectures" / "01_why_gpus.ipynb"
    with chromium() as browser:
        tab = Tab(browser.new_page(viewport={"width": 1280, "height": 800}), None)
        page = tab.page
        page.set_default_timeout(1000 * hub_place.PATIENCE)

        def open_link() -> None:
            page.goto(address)
            see(page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("Why GPUs")
            tab.wait_until_idle()

        with walk.step("a lecture's link: log in, server, clone, notebook, kernel") as seen:
            begun = time.perf_counter()
            page.goto(address)
            page.get_by_label("Username").fill(RIGHT)
            page.get_by_label("Password").fill(hub.password)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/lab/tree/**")
            seen["s until JupyterLab's page"] = round(time.perf_counter() - begun, 1)
            see(page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("Why GPUs")
            tab.wait_until_idle()
            tab.picture("hub-1-lecture")
            seen["MB of the server"] = memory(RIGHT)
            seen["MB of the home"] = round(sum(
                one.lstat().st_blocks for one in (HOMES / RIGHT).rglob("*")) * 512 / 1e6, 1)
        with walk.step("nothing of nbgrader that is for teachers is in sight"):
            see(page.locator(".lm-TabBar-tab[title*='reate']")).to_have_count(0)
            page.locator(".lm-MenuBar-itemLabel").get_by_text("Nbgrader", exact=True).click()
            entries = page.locator(".lm-Menu-itemLabel").all_inner_texts()
            expect("Assignment List" in entries and "Formgrader" not in entries, entries)
            tab.picture("hub-2-menu")
            page.keyboard.press("Escape")
        with walk.step("the learner runs a cell and changes one"):
            tab.run(tab.cell("%load_ext gpucourse"))
            cell = tab.cell("%load_ext gpucourse")
            tab.into(cell)
            page.keyboard.press("Control+End")
            page.keyboard.insert_text("\n# a note of mine")
            tab.save()
        expect("# a note of mine" in hub_place.notebook_sources(lecture), "it was not saved")

        def change(notebook: dict) -> None:
            cells = notebook["cells"]
            code = next(one for one in cells if "%load_ext gpucourse" in "".join(one["source"]))
            code["source"][-1] += "\n"
            code["source"].append("# the course's own change of the same cell")
            cells[-1]["source"].append("\n\nNews from upstream.")

        upstream_changes(change, "lectures/01_why_gpus.ipynb", "News")
        with walk.step("the link again, after a change upstream of this and another cell"):
            open_link()
            tab.picture("hub-3-link-again")
        text = hub_place.notebook_sources(lecture)
        expect("# a note of mine" in text, "the learner's change is gone")
        expect("News from upstream." in text, "the change upstream did not arrive")
        expect("the course's own change" not in text, "upstream took the place of a learner's text")
        see(page.get_by_text("News from upstream.").first).to_be_attached()


# --- an assignment ----------------------------------------------------------------------------


def answer(user: str) -> None:
    """Write the solution's answers into the learner's own notebook."""
    file = HOMES / user / CHECKOUT / NOTEBOOK
    notebook = json.loads(file.read_text())
    answers = {cell["metadata"]["nbgrader"]["grade_id"]: cell["source"] for cell in json.loads(
        (COURSE / "solutions" / f"{PROJECT}.ipynb").read_text())["cells"]
        if cell["metadata"].get("nbgrader", {}).get("solution")}
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["metadata"].get("nbgrader", {}).get("grade_id"),
                                     cell["source"])
    file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def walk_assignment(walk: Walk, hub: Hub) -> None:
    """Release, two submissions, grades, feedback."""
    grading = f"/home/jovyan/{CHECKOUT}/grading"
    with walk.step("release") as seen:
        command(TEACHER, "nbgrader", "generate_assignment", PROJECT, cwd=grading)
        command(TEACHER, "nbgrader", "release_assignment", PROJECT, cwd=grading)
        inbound = EXCHANGE / "gpucourse" / "inbound"
        seen["mode of inbound"] = oct(inbound.stat().st_mode & 0o7777)
    token = hub.token_of(RIGHT)
    with walk.step("the learner's list has it, as downloaded already"):
        found = hub.page(RIGHT, "assignments?course_id=gpucourse", token).json()["value"]
        expect([(one["assignment_id"], one["status"]) for one in found] == [(PROJECT, "fetched")],
               found)
    answer(RIGHT)
    with walk.step("Submit, as the button of the assignment list does it"):
        said = hub.page(RIGHT, "assignments/submit", token, "POST",
                        course_id="gpucourse", assignment_id=PROJECT).json()
        expect(said["success"], said)
    with walk.step("nbgrader submit in a terminal, of a project as it was released"):
        command(STARTER, "nbgrader", "submit", PROJECT)
    with walk.step("collect") as seen:
        said = command(TEACHER, "nbgrader", "collect", PROJECT, cwd=grading)
        expect("cheating" not in said, said)
        seen["from"] = sorted(
            one.name for one in (HOMES / TEACHER / CHECKOUT / "grading" / "submitted").iterdir())
        expect(seen["from"] == [RIGHT, STARTER], seen)
    with walk.step("gpucourse grade") as seen:
        command(TEACHER, "gpucourse", "grade", cwd=grading)
        verdicts = HOMES / TEACHER / CHECKOUT / "grading" / "verdicts"
        for user in (RIGHT, STARTER):
            verdict = json.loads((verdicts / user / PROJECT / f"{PROJECT}.json").read_text())
            seen[user] = verdict["earned"]
            seen["isolation"] = verdict["isolation"]
        # The rest of the project's points is for words, which a person reads.
        expect(seen[RIGHT] == verdict["points"] > 0 == seen[STARTER], seen)
    with walk.step("feedback: generate and release"):
        command(TEACHER, "nbgrader", "generate_feedback", PROJECT, cwd=grading)
        command(TEACHER, "nbgrader", "release_feedback", PROJECT, cwd=grading)
    with walk.step("feedback: fetched by the learners"):
        said = hub.page(RIGHT, "assignments/fetch_feedback", token, "POST",
                        course_id="gpucourse", assignment_id=PROJECT).json()
        expect(said["success"], said)
        command(STARTER, "nbgrader", "fetch_feedback", PROJECT)
        for user, score in ((RIGHT, f"{verdict['points']:g}"), (STARTER, "0")):
            project = HOMES / user / CHECKOUT / "projects" / PROJECT
            pages = list((project / "feedback").rglob("*.html"))
            expect(len(pages) == 1, pages)
            text = re.sub(r"<[^>]+>", "", pages[0].read_text())
            expect(re.search(rf"Score: {score}(\.0)? /", text), f"{user}: no score {score}")
            expect("HIDDEN TESTS" not in text, f"{user}: hidden tests are in the feedback")


# --- who may look where -----------------------------------------------------------------------


def walk_rights(walk: Walk, hub: Hub) -> None:
    """Formgrader for teachers; what a learner may not do; what the grader does in closed pods."""
    own, colleague, curious = (hub.token_of(user) for user in (TEACHER, COLLEAGUE, CURIOUS))
    with walk.step("formgrader: the teacher and a colleague, nobody else") as seen:
        page = "formgrader/manage_assignments"
        for who, user, token in (("teacher", TEACHER, own),
                                 ("colleague, on the teacher's server", TEACHER, colleague),
                                 ("learner, on the teacher's server", TEACHER, curious),
                                 ("learner, on the own server", CURIOUS, curious)):
            seen[who] = hub.page(user, page, token).status_code
        expect(list(seen.values()) == [200, 200, 403, 404], seen)
        found = hub.page(TEACHER, "formgrader/api/assignments", colleague).json()
        counts = {one["name"]: one["num_submissions"] for one in found}
        expect(counts[PROJECT] == 2, found)
    with walk.step("a learner in the exchange") as seen:
        inbound = EXCHANGE / "gpucourse" / "inbound"
        theirs = next(inbound.glob(f"{RIGHT}+*"))
        for name, words in {
            "list what was handed in": ("ls", str(inbound)),
            "delete what was handed in": ("sh", "-c", f"rm -r {inbound}/{RIGHT}+*"),
            "change a submission whose name is known": ("touch", f"{theirs}/{PROJECT}.ipynb"),
            "change what is released": (
                "touch", str(EXCHANGE / "gpucourse" / "outbound" / PROJECT / f"{PROJECT}.ipynb")),
        }.items():
            seen[name] = "refused" if in_pod(CURIOUS, *words).returncode else "ALLOWED"
        expect(set(seen.values()) == {"refused"}, seen)
    with walk.step("work handed in under another's name shows whose it is"):
        before = set(inbound.iterdir())
        command(CURIOUS, "nbgrader", "submit", PROJECT, f"--student={RIGHT}")
        (forged,) = set(inbound.iterdir()) - before
        expect(forged.name.startswith(f"{RIGHT}+"), forged.name)
        owners = {user: server_of(user).uids().real for user in (RIGHT, CURIOUS)}
        expect(theirs.stat().st_uid == owners[RIGHT] != owners[CURIOUS] == forged.stat().st_uid,
               owners)
    grade = ("gpucourse", "regrade", STARTER)
    grading = f"/home/jovyan/{CHECKOUT}/grading"
    with walk.step("grading where a pod hides part of /proc, as containers do") as seen:
        command(TEACHER, *grade, cwd=grading, within=("--tmpfs", "/proc/fs"))
        verdict = HOMES / TEACHER / CHECKOUT / "grading" / "verdicts" / STARTER / PROJECT
        seen["isolation"] = json.loads((verdict / f"{PROJECT}.json").read_text())["isolation"]
        expect(seen["isolation"] == "namespaces", seen)
    with walk.step("grading where user namespaces are forbidden") as seen:
        closed = ("bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/")
        done = in_pod(TEACHER, *closed, *grade, cwd=grading)
        seen["said"] = " ".join((done.stdout + done.stderr).split())[:200]
        expect(done.returncode == 1 and "only at level 'limits'" in seen["said"], seen)


# --- all of it --------------------------------------------------------------------------------


def inside(proxy: Path) -> dict:
    """In the namespaces: the whole walk."""
    hub_place.furnish(proxy)
    folder = Path(tempfile.mkdtemp(prefix="hub-", dir="/srv"))
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
        with walk.step("a server again, upstream not to be reached"):
            hub.stop_server(CURIOUS)
            hub_place.UPSTREAM.rename(hub_place.UPSTREAM.with_suffix(".away"))
            hub.start(CURIOUS)
    except BaseException:
        print("\n".join(hub.log().splitlines()[-60:]), file=sys.stderr)
        raise
    finally:
        hub.stop()
    return walk.steps


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub")
    parser.add_argument("--proxy", help="configurable-http-proxy, where it is not on PATH",
                        default=shutil.which("configurable-http-proxy"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    missing = hub_place.lacking(options.proxy)
    if missing:
        sys.exit("This machine lacks\n- " + "\n- ".join(missing))
    if not options.inside:
        sys.exit(hub_place.enter(["--proxy", options.proxy]))
    load = os.getloadavg()[0]
    steps = inside(Path(options.proxy))
    write(NAME, {
        "command": "python -m benchmarks.hub",
        "load of the machine before": round(load, 1),
        "programs": {name: version(name) for name in
                     ("jupyterhub", "jupyterlab", "nbgrader", "nbgitpuller")},
        "steps": steps,
    })


if __name__ == "__main__":
    main()
