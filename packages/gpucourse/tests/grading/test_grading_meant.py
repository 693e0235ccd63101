"""What ``gpucourse grade`` is given: a notebook, its folder, its name, or nearly."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucourse.cli import app
from gpucourse.course.checkout import NotInTheCourse, work_meant

NAME = "01_fill_a_histogram"


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lectures").mkdir()
    (tmp_path / "welcome.ipynb").touch()
    folder = tmp_path / "projects" / NAME
    folder.mkdir(parents=True)
    (folder / f"{NAME}.ipynb").touch()
    (folder / "another.ipynb").touch()
    monkeypatch.chdir(folder)
    return folder / f"{NAME}.ipynb"


@pytest.mark.parametrize(
    "given", [f"{NAME}.ipynb", NAME, ".", f"../{NAME}", f"../../projects/{NAME}/{NAME}"]
)
def test_a_project_is_found_by_its_file_its_folder_and_its_name(notebook: Path, given: str):
    assert work_meant(Path(given)).resolve() == notebook


def test_a_project_is_found_from_another_folder(notebook: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(notebook.parents[2] / "lectures")
    assert work_meant(Path(NAME)).resolve() == notebook


def test_a_class_and_any_other_notebook_are_meant_as_they_are(notebook: Path):
    assert work_meant(Path("another.ipynb")) == Path("another.ipynb")
    course = notebook.parents[2]
    (course / "source").mkdir()
    assert work_meant(course) == course


def test_a_name_that_nothing_has_gets_the_nearest(notebook: Path):
    with pytest.raises(NotInTheCourse, match=f"no notebook 01_fil_histogram: .*{NAME}.ipynb"):
        work_meant(Path("01_fil_histogram"))
    told = CliRunner().invoke(app, ["grade", "01_fil_histogram"])
    assert told.exit_code == 2
    assert "did you mean" in " ".join(told.output.split())
