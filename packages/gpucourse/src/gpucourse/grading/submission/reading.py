"""Reader of submitted files that checks them before any of their content is used."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from gpucourse.grading.limits import MEGABYTE, Limits
from gpucourse.grading.submission.without_outputs import without_outputs
from gpucourse.system.settled import settled

# First bytes, in lower case, of other file types that are submitted under a notebook's name.
OTHER_FILES = (
    (b"\x1f\x8b", "compressed (gzip)", "Unpack it and use the notebook in it."),
    (b"pk\x03\x04", "a zip archive", "Unpack it and use the notebook in it."),
    (b"7z\xbc\xaf", "a 7z archive", "Unpack it and use the notebook in it."),
    (b"%pdf", "a PDF", "Use the .ipynb file that JupyterLab saves, not an export of it."),
    *(
        (begin, "a web page", "Use the .ipynb file that JupyterLab saves, not an export of it.")
        for begin in (b"<!doctype", b"<html")
    ),
)


def is_utf16(data: bytes) -> bool:
    """Return True for text in UTF-16 with its mark, as ``>`` in PowerShell writes it."""
    return data[:2] in (b"\xff\xfe", b"\xfe\xff")


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the content of the regular file `path`, of at most `limit` bytes.

    Raises Unreadable, with a message for the student, for links, devices, pipes and large files.
    """
    try:
        status = os.lstat(path)
    except OSError:
        raise Unreadable("The file is missing from the submission.") from None
    if stat.S_ISLNK(status.st_mode):
        raise Unreadable("The file is a link. Use the notebook itself.")
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable("This is not a regular file. Use the notebook itself.")
    if status.st_nlink > 1:
        raise Unreadable("The file is a hard link. Use a copy of the notebook.")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(f"The file cannot be opened ({error.strerror}).") from None
    with os.fdopen(handle, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(
            f"The notebook is larger than {limit // MEGABYTE} MB. Clear its outputs (Kernel > "
            "Restart Kernel and Clear Outputs) and save it; in a class, then submit it again."
        )
    return data


def read_cells(path: Path, limits: Limits) -> list[dict]:
    """Return the cells of the notebook at `path`. Raises Unreadable, in words for the student."""
    return read_notebook(path, limits)[0]


def read_notebook(path: Path, limits: Limits) -> tuple[list[dict], bytes]:
    """Return the cells of the notebook at `path`, and its bytes; raise Unreadable if it has none.

    A truncated file is read again for as long as an editor may be saving it.
    """

    def read() -> tuple[list[dict], bytes]:
        data = read_bytes(path, limits.upload_bytes)
        try:
            return parse_cells(data, limits.notebook_bytes), data
        except Unreadable as unreadable:
            unreadable.data = data
            raise

    return settled(path, read, CutShort)


def parse_cells(data: bytes, limit: int) -> list[dict]:
    """Return the cells of a version 4 notebook, checked only to be objects.

    A notebook of more than `limit` bytes is read without its outputs. Raises Unreadable, with a
    message for the student, also if the rest is still too large.
    """
    again = (
        "Open it in JupyterLab and save it; in a class, then submit it again. If it does not "
        "open, fetch a fresh copy and write your answers into that."
    )
    for begin, kind, how in OTHER_FILES:
        if data[:200].lstrip().lower().startswith(begin):
            raise Unreadable(f"The file is {kind}, not a notebook. {how}")
    try:
        text = data.decode("utf-16" if is_utf16(data) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise CutShort(
            f"The notebook is not {'UTF-16' if is_utf16(data) else 'UTF-8'} text (first wrong byte "
            f"at {error.start}). {again}"
        ) from None
    if len(data) > limit:
        try:
            text = without_outputs(text)
        except ValueError as many:
            raise Unreadable(
                f"The notebook holds {many}, more than the grader reads. Clear its "
                f"outputs (Kernel > Restart Kernel and Clear Outputs). {again}"
            ) from None
        if len(text.encode()) > limit:
            raise Unreadable(
                f"The notebook is larger than {limit // MEGABYTE} MB, outputs and pictures left "
                f"out. That is too long for answers. {again}"
            )
    try:
        document = json.loads(text)
    except RecursionError:
        raise Unreadable(f"The notebook is nested too deeply to be a notebook. {again}") from None
    except ValueError as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise CutShort(
            f"The notebook is not valid JSON{where}: it was cut short or edited by hand. {again}"
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("nbformat"), int):
        raise Unreadable(f"The file is not a Jupyter notebook. {again}")
    if document["nbformat"] != 4:
        raise Unreadable(
            f"The notebook is in format {str(document['nbformat'])[:20]}; the grader reads format "
            f"4. {again}"
        )
    cells = document.get("cells")
    if not isinstance(cells, list):
        raise Unreadable(f"The notebook has no list of cells. {again}")
    return [cell for cell in cells if isinstance(cell, dict)]


def source_of(cell: dict) -> str | None:
    """Return a submitted cell's text with notebook line ends; None if it is not text."""
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        return None
    # Windows' line ends are not a change. A lone surrogate is valid JSON but cannot be written to a
    # file again.
    return source.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8")


def grade_id_of(cell: dict) -> str:
    metadata = cell.get("metadata")
    metadata = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = metadata.get("grade_id") if isinstance(metadata, dict) else None
    return grade_id if isinstance(grade_id, str) else ""


class Unreadable(Exception):
    """Error for a submission that cannot be read; the message contains the reason and advice."""

    # The bytes that were read, if any.
    data = b""


class CutShort(Unreadable):
    """Error for a truncated file, which may be complete in a moment if an editor is saving it."""
