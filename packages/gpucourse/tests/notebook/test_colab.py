"""Colab: the copies lead somewhere and are graded as any other; the set-up touches what it must."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import pytest

from gpucourse.course import released
from gpucourse.course.locks import read_lock
from gpucourse.course.projects import COURSE, STANDINS, VIRTUALGPU, editable
from gpucourse.notebook import colab, extension
from gpucourse.publish import commands
from gpucourse.publish.notebooks import colab_copies
from gpucourse.publish.notebooks.outputs import derive
from gpucourse.system import device, libraries
from small_course import LECTURE, PROJECT, write_course

URL = "https://github.com/someone/lessons"
COLAB = "https://colab.research.google.com/github/someone/lessons/blob/main/lectures/colab"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small course with an address, built."""
    root = write_course(tmp_path)
    (root / COURSE).parent.mkdir(parents=True)
    (root / COURSE).write_text(f'[project.urls]\nRepository = "{URL}"\n')
    monkeypatch.chdir(root)
    commands.build()
    return root


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


# --- the copies -------------------------------------------------------------------------------


def test_a_copy_is_the_notebook_with_a_cell_in_front(course: Path):
    copies = {
        f"lectures/{LECTURE}": f"lectures/colab/{LECTURE}",
        f"projects/{PROJECT}/{PROJECT}": f"lectures/colab/project_{PROJECT}",
    }
    paths = {Path(f"{one}.ipynb"): Path(f"{other}.ipynb") for one, other in copies.items()}
    for original, made in copies.items():
        before, after = read(course / f"{original}.ipynb"), read(course / f"{made}.ipynb")
        about, set_up = after.cells[1:3]
        assert f"]({COLAB}/{Path(made).name}.ipynb)" in about.source
        assert "colab.set_up()" in set_up.source
        for cell in before.cells:
            if cell.cell_type == "markdown":  # the strip's links lead to the copies
                cell.source = colab_copies._relinked(
                    cell.source, Path(f"{original}.ipynb"), URL, paths
                )
        assert [after.cells[0], *after.cells[3:]] == before.cells
        assert after.metadata.accelerator == "GPU"
        assert released.is_untouched(after)
    assert [cell.metadata.nbgrader.grade_id for cell in after.cells if "nbgrader" in cell.metadata]


def test_a_course_without_an_address_has_no_copies(tmp_path: Path):
    assert not [path for path in derive(write_course(tmp_path)) if path.parts[1:2] == ("colab",)]


def test_a_copy_whose_lesson_is_gone_is_removed(course: Path):
    old = course / "lectures/colab" / "project_99_gone.ipynb"
    text = (course / "lectures/colab" / f"project_{PROJECT}.ipynb").read_text()
    old.write_text(text.replace(f'"id": "{PROJECT}"', '"id": "99_gone"'))
    (course / "lectures/colab" / "mine.ipynb").write_text(text)
    assert commands.build() == 0
    assert not old.exists()
    assert (course / "lectures/colab" / "mine.ipynb").exists()


TEXT = """\
[next](02_b.ipynb#place "title") and [a project](../projects/03_c/03_c.ipynb), [n](../docs/a b.md),
![two
lines](../img/grid.svg), <img alt="x" src="../img/x.png">, [up](../docs/s.md#a-b), [here](#below),
[web](https://example.org/a), `[code](02_b.ipynb)` and
```
[code](02_b.ipynb) kernel[1, 32](x)
```
[<in brackets>](<02_b.ipynb>)"""
RELINKED = f"""\
[next]({COLAB}/02_b.ipynb "title") and [a project]({COLAB}/project_03_c.ipynb), [n](../docs/a b.md),
![two
lines](https://raw.githubusercontent.com/someone/lessons/main/img/grid.svg), <img alt="x" \
src="https://raw.githubusercontent.com/someone/lessons/main/img/x.png">, \
[up]({URL}/blob/main/docs/s.md#a-b), [here](#below),
[web](https://example.org/a), `[code](02_b.ipynb)` and
```
[code](02_b.ipynb) kernel[1, 32](x)
```
[<in brackets>](<{COLAB}/02_b.ipynb>)"""


def test_links_and_pictures_lead_somewhere_from_colab():
    made = {Path("lectures/02_b.ipynb"): None, Path("projects/03_c/03_c.ipynb"): None}
    paths = {path: colab_copies.copy_path(path) for path in made}
    told = colab_copies._relinked(TEXT, Path("lectures/01_a.ipynb"), URL, paths)
    assert told == RELINKED


def test_every_link_of_the_copies_leads_to_a_file(repository: Path):
    """Into this repository: what it says of other places cannot be checked here."""
    url = re.compile(
        r"https://(?:colab\.research\.google\.com/github|github\.com|"
        r"raw\.githubusercontent\.com)/[\w-]+/[\w-]+/(?:blob/)?main/([^)#\s\"]+)"
    )
    found = 0
    for path in (repository / "lectures/colab").glob("*.ipynb"):
        for cell in read(path).cells:
            if cell.cell_type == "markdown":
                for place in url.findall(cell.source):
                    found += 1
                    assert (repository / place).is_file(), f"{path.name}: {place}"
                assert "](../" not in cell.source
    assert found


def test_list_of_lessons_opens_every_copy(repository: Path):
    page = (repository / "docs" / "lessons.md").read_text()
    linked = set(
        re.findall(r"\[Colab\]\(https://colab\.\S+?/blob/main/lectures/colab/(\S+?)\)", page)
    )
    made = {path.name for path in (repository / "lectures/colab").glob("*.ipynb")}
    assert linked == made - {"gallery.ipynb", "three_hours.ipynb"}


def test_the_set_up_cell_does_nothing_elsewhere(repository: Path, monkeypatch: pytest.MonkeyPatch):
    source = read(repository / "lectures/colab" / "02_why_gpus.ipynb").cells[2].source
    assert "google.colab" not in sys.modules
    code = (
        "from IPython.core.interactiveshell import InteractiveShell as S\nimport sys\n"
        f"done = S.instance().run_cell({source!r})\nassert done.success, done\n"
        "assert 'gpucourse' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the set-up -------------------------------------------------------------------------------

PYPROJECTS = {
    "pyproject.toml": "[dependency-groups]",
    VIRTUALGPU: """\
[project]
dependencies = ["numpy>=2.0,<2.5", "numba-cuda>=0.28,<0.31; sys_platform != 'darwin'",
  "cuda-toolkit[nvcc,nvrtc]>=12.8,<14", "winonly>=1; sys_platform == 'win32'"]
""",
    STANDINS: """\
[project]
dependencies = ["virtualgpu>=0.1"]
""",
    COURSE: """\
[project]
requires-python = ">=3.11"
dependencies = ["awkward>=2.8", "ipython>=8.30", "jupyterlab>=4.6", "matplotlib>=3.10",
  "virtualgpu>=0.1"]
[project.optional-dependencies]
[project.urls]
Repository = "https://example.org"
""",
}
LOCK = """\
awkward==2.14.0 \\
    --hash=sha256:00
awkward-cpp==57 \\
    --hash=sha256:00
cuda-core==1.2.2
cuda-toolkit==13.4.3
numba-cuda==0.30.4
numpy==2.4.6
winonly==1 ; sys_platform == 'win32'
"""
THERE = {
    "numpy": "2.1.3",
    "numba-cuda": "0.22.2",
    "cuda-core": "0.3.2",
    "cuda-toolkit": "12.8.1",
    "ipython": "7.34.0",
    "matplotlib": "3.10.0",
    "torch": "2.11.0",
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine of Colab's: what is installed there, and what pip was told."""
    (tmp_path / "requirements").mkdir()
    for name, text in PYPROJECTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "requirements" / "base.txt").write_text(LOCK)
    there = dict(THERE)
    state = SimpleNamespace(root=tmp_path, there=there, calls=[], status=0, compilers=True)
    monkeypatch.setattr("gpucourse.course.checkout.own_checkout", lambda: tmp_path)
    monkeypatch.setattr(colab, "version", there.get)
    monkeypatch.setattr(
        colab.importlib.metadata,
        "distributions",
        lambda: [
            SimpleNamespace(metadata={"Name": name}, version=version)
            for name, version in there.items()
        ],
    )
    monkeypatch.setattr(
        libraries, "find_compiler", lambda name: "found" if state.compilers else None
    )
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    for name in ("numba", "numba.cuda", "cuda.bindings"):
        parent, _, child = name.rpartition(".")
        if hasattr(sys.modules.get(parent), child):
            # What is imported anew meanwhile becomes the parent's; afterwards it is the old one's.
            monkeypatch.setattr(sys.modules[parent], child, getattr(sys.modules[parent], child))
    for name in ("numba", "numba.cuda", "cuda.bindings"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def pip(command: list[str], **_: object) -> SimpleNamespace:
        assert command[:4] == [sys.executable, "-m", "pip", "install"]
        words = command[7:]
        if words[0] == "--constraint":
            words[1] = Path(words[1]).read_text().split("\n")
            for word in words[2:]:
                name, version = re.sub(r"\[.*\]", "", word).split("==")
                there[name] = version
        state.calls.append(words)
        return SimpleNamespace(returncode=state.status, stderr="long\nERROR: no network\n")

    monkeypatch.setattr(colab.subprocess, "run", pip)
    return state


def test_what_is_missing_or_too_old_is_installed_and_the_rest_stays(
    machine: SimpleNamespace, capsys: pytest.CaptureFixture[str], monkeypatch
):
    monkeypatch.setattr(device, "device", lambda: device.DeviceInfo("Tesla T4", False, (7, 5)))
    colab.set_up()
    (first, second) = machine.calls
    assert first[2:] == ["numba-cuda==0.30.4", "awkward==2.14.0"]
    held = first[1]
    # Colab's own stay, also where the lock has others; what comes along has the lock's version.
    assert {"numpy==2.1.3", "torch==2.11.0", "ipython==7.34.0", "cuda-toolkit==12.8.1"} <= set(held)
    assert {"awkward-cpp==57", "cuda-core==1.2.2", "numba-cuda==0.30.4"} <= set(held)
    assert len({line.split("==")[0] for line in held}) == len(held)
    assert not [line for line in held if line.startswith("winonly")]
    assert second == ["--no-deps", *editable(machine.root)]
    said = capsys.readouterr().out
    assert said.startswith("Installed awkward 2.14.0, numba-cuda 0.30.4 (")
    assert "Runtime ›" not in said


def test_a_second_time_installs_nothing(machine: SimpleNamespace, capsys):
    colab.set_up()
    del machine.calls[:]
    colab.set_up()
    assert [call[0] for call in machine.calls] == ["--no-deps"]
    assert "Everything that the course needs is installed." in capsys.readouterr().out


def test_without_a_gpu_it_says_how_to_get_one(machine: SimpleNamespace, capsys, monkeypatch):
    monkeypatch.setattr(device, "device", lambda: device.DeviceInfo("V", True, (9, 0)))
    colab.set_up()
    assert "Runtime › Change runtime type › T4 GPU" in capsys.readouterr().out


def test_compilers_that_are_not_found_come_in_the_version_that_is_there(machine: SimpleNamespace):
    machine.compilers = False
    wanted = colab.missing(machine.root)
    assert wanted["cuda-toolkit"] == "cuda-toolkit[nvcc,nvrtc]==12.8.1"
    del machine.there["cuda-toolkit"]
    assert colab.missing(machine.root)["cuda-toolkit"] == "cuda-toolkit[nvcc,nvrtc]==13.4.3"


def test_what_was_imported_in_another_version_asks_for_a_restart(
    machine: SimpleNamespace, capsys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "numba.cuda", ModuleType("numba.cuda"))
    monkeypatch.setitem(sys.modules, "awkward", ModuleType("awkward"))  # was not there before
    colab.set_up()
    told = capsys.readouterr().out.split("\n")
    assert told[1].startswith(
        "Another version of numba-cuda was imported before. Choose Runtime › Restart session"
    )


def test_a_failing_pip_says_what_to_do(machine: SimpleNamespace):
    machine.status = 1
    with pytest.raises(colab.SetUpFailed, match=r"(?s)Disconnect and delete.*ERROR: no network"):
        colab.set_up()


def test_anywhere_else_nothing_is_done(machine: SimpleNamespace, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "google.colab")
    colab.set_up()
    assert machine.calls == []
    assert capsys.readouterr().out == "This is not Google Colab, so there is nothing to set up.\n"


def test_the_lock_pins_everything_that_colab_may_lack(repository: Path):
    pins = {pin.name for pin in read_lock((repository / "requirements" / "base.txt").read_text())}
    names = {requirement.name for requirement in colab._requirements(repository)}
    assert names <= pins
    assert colab.KEPT | colab.NOT_NEEDED < names
    assert colab.COMPANIONS <= pins
    assert json.loads(json.dumps(colab._pins(repository)))["numba"]


# --- IPython 7 --------------------------------------------------------------------------------


class OldCompiler:
    """As IPython 7 has it: a cell's code has a file name and no number."""

    def cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        return f"/tmp/ipykernel_1/{len(transformed_code)}.py"


def test_cells_have_numbers_in_an_old_ipython():
    compiler = OldCompiler()
    shell = SimpleNamespace(compile=compiler)
    extension.name_cells(shell)
    from virtualgpu import sources

    try:
        name = compiler.cache("x = 1", 7, raw_code="x = 1")
        assert sources.name(name) == "cell In[7]"
        assert sources.name("/somewhere/kernels.py") == "kernels.py"
    finally:
        sources.unregister_namer(shell._gpucourse_namer)
    before = compiler.format_code_name
    colab.name_cells(compiler)
    assert compiler.format_code_name is before  # once is enough
