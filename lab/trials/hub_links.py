"""Trial of a lecture link in a browser, part of lab/trials/hub.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lab.trials import hub_place
from lab.trials.hub_place import CHECKOUT, HOMES, REPOSITORY, RIGHT, Hub, Walk, expect, memory

NOTEBOOK = f"{CHECKOUT}/lectures/02_why_gpus.ipynb"


def links(hub: Hub) -> dict[str, str]:
    """Return links by title, as the command prints them for this hub."""
    table = subprocess.run(
        [sys.executable, "-m", "gpucourse.publish.release.hub", hub.address],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(re.findall(r"\| \[(.*?)\]\((.*?)\) \|", table))


def upstream_changes(change: Callable[[dict], None], path: str, message: str) -> None:
    """Commit a change of a notebook to the course's repository."""
    with tempfile.TemporaryDirectory() as folder:
        hub_place.run("git", "clone", "-q", hub_place.UPSTREAM, folder)
        file = Path(folder, path)
        notebook = json.loads(file.read_text())
        change(notebook)
        file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        hub_place.run(
            "git",
            "-c",
            "user.name=Course",
            "-c",
            "user.email=course@example.org",
            "commit",
            "-qam",
            message,
            cwd=Path(folder),
        )
        hub_place.run("git", "push", "-q", "origin", "HEAD:main", cwd=Path(folder))


def walk_links(walk: Walk, hub: Hub) -> None:
    """Follow a learner in a browser: link, login, edit, an upstream change, the link again."""
    from playwright.sync_api import expect as see

    import lab.benchmarks.support  # noqa: F401
    from jupyter_lab import Tab, chromium

    see.set_options(timeout=1000 * hub_place.PATIENCE)
    address = links(hub)["Why GPUs, and when not"]
    lecture = HOMES / RIGHT / NOTEBOOK
    with chromium() as browser:
        tab = Tab(browser.new_page(viewport={"width": 1280, "height": 800}), None)
        page = tab.page
        page.set_default_timeout(1000 * hub_place.PATIENCE)

        def open_link() -> None:
            page.goto(address)
            see(page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("Why GPUs")
            tab.wait_for_kernel(NOTEBOOK)

        with walk.step("a lecture's link: log in, server, clone, notebook, kernel") as seen:
            begun = time.perf_counter()
            page.goto(address)
            page.get_by_label("Username").fill(RIGHT)
            page.get_by_label("Password").fill(hub.password)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/lab/tree/**")
            seen["s until JupyterLab's page"] = round(time.perf_counter() - begun, 1)
            see(page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("Why GPUs")
            tab.wait_for_kernel(NOTEBOOK)
            tab.picture("hub-1-lecture")
            seen["MB of the server"] = memory(RIGHT)
            seen["MB of the home"] = round(
                sum(one.lstat().st_blocks for one in (HOMES / RIGHT).rglob("*")) * 512 / 1e6, 1
            )
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

        upstream_changes(change, "lectures/02_why_gpus.ipynb", "News")
        with walk.step("the link again, after a change upstream of this and another cell"):
            open_link()
            tab.picture("hub-3-link-again")
        text = hub_place.notebook_sources(lecture)
        expect("# a note of mine" in text, "the learner's change is gone")
        expect("News from upstream." in text, "the change upstream did not arrive")
        expect("the course's own change" not in text, "upstream took the place of a learner's text")
        see(page.get_by_text("News from upstream.").first).to_be_attached()
