"""Real collisions, for those with a network: CMS Open Data, 61 million events, 2.2 GB.

Record 12341 of the CERN Open Data portal, "DoubleMuParked dataset from 2012 in NanoAOD format
reduced on muons" (S. Wunsch, 2019, doi:10.7483/OPENDATA.CMS.LVG5.QT81, CC0): every event of the
2012 runs B and C at 8 TeV that fired a double-muon trigger, with its muons and nothing else.
`gpucourse.data.nanoaod.read` gives it the same shape as the bundled toy.

**No lesson needs this file.**  It shows the peaks in real data.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import awkward as ak
import platformdirs
import requests
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gpucourse.data.download import (
    TIMEOUT,
    FetchError,
    Published,
    Refused,
    Unreachable,
    cause,
    check_status,
    download,
    is_verified,
    session,
)
from gpucourse.data.nanoaod import read

__all__ = ["FetchError", "default_directory", "events", "fetch", "published"]

SERVER = "https://opendata.cern.ch"
RECORD = 12341
FILENAME = "Run2012BC_DoubleMuParked_Muons.root"
_UNNEEDED = (
    "No lesson needs this file: dimuons() reads the events that come with the course, and "
    "dimuons(1_000_000) makes more."
)


def default_directory() -> Path:
    """Where fetched data goes: $GPUCOURSE_DATA, else the user's cache directory."""
    chosen = os.environ.get("GPUCOURSE_DATA")
    return Path(chosen) if chosen else platformdirs.user_cache_path("gpucourse")


def events(directory: Path | None = None, stop: int | None = 1_000_000) -> ak.Array:
    """The first `stop` real events: ``N * {muons: var * {pt, eta, phi, charge}}``.

    Raises FetchError if `fetch` has not brought the file yet.  ``stop=None`` reads all 61
    million, which take several GB of memory.
    """
    path = (directory or default_directory()) / FILENAME
    if not path.exists():
        raise FetchError(f"{path} is not there; run `gpucourse data fetch` first.  {_UNNEEDED}")
    return read(path, stop)


def fetch(
    directory: Path | None = None,
    *,
    server: str = SERVER,
    progress: bool = True,
    attempts: int = 5,
    pause: float = 2.0,
) -> Path:
    """Bring the CMS dimuon file into `directory` and return its path, checked.

    Size and checksum are those that the record publishes.  A download that broke off goes on
    where it stopped; a file that is there already is checked and, if right, needs no network.
    `attempts` and `pause` [s] say how patient to be with a bad connection.

    Raises FetchError with a message that says what to do: no network, refused, damaged, no
    room.  A part that may still be good stays for the next call.
    """
    directory = Path(directory or default_directory())
    directory.mkdir(parents=True, exist_ok=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not progress,
    )
    with bar, session(attempts, pause) as web:
        task = bar.add_task("looking up", total=None)

        def report(doing: str, done: int) -> None:
            bar.update(task, description=doing, completed=done)

        if is_verified(directory, FILENAME, report):
            return directory / FILENAME
        file = published(server, web, directory)
        bar.update(task, total=file.size)
        return download(file, directory, web, report, attempts=attempts, pause=pause)


def published(server: str, web: requests.Session, directory: Path) -> Published:
    """What the record says of the file, from the portal's REST interface.

    ``/api/records/12341`` answers with JSON whose ``metadata.files`` lists for each file its
    ``uri`` (root://eospublic.cern.ch//eos/...), ``size`` and ``checksum`` ("adler32:..."); the
    same path is served over HTTPS by the portal.
    """
    address = f"{server}/api/records/{RECORD}"
    try:
        response = web.get(address, timeout=TIMEOUT)
    except requests.RequestException as error:
        raise Unreachable(
            f"Cannot reach {server} ({cause(error)}): there is no network here, or a proxy is "
            f"needed (HTTPS_PROXY).\n{_UNNEEDED}\nWith a network, run `gpucourse data fetch` "
            "again; a download that was begun goes on where it stopped.  Or download "
            f"{FILENAME} elsewhere from {SERVER}/record/{RECORD}, put it into {directory}, and "
            "read it with gpucourse.data.opendata.events()."
        ) from error
    check_status(response, address)
    try:
        entries = response.json()["metadata"]["files"]
        entry = next(entry for entry in entries if entry["uri"].endswith(f"/{FILENAME}"))
        return _published(entry, server)
    except StopIteration:
        raise Refused(f"{address} no longer lists {FILENAME}.  {_UNNEEDED}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(
            f"{address} did not answer with a record of the portal ({type(error).__name__}: "
            f"{error}).  Some networks put their login page in between: open it in a browser.  "
            f"{_UNNEEDED}"
        ) from error


def _published(entry: dict[str, Any], server: str) -> Published:
    """A file's entry in the record; raises ValueError where it does not make sense."""
    algorithm, _, digits = entry["checksum"].rpartition(":")
    # Old records leave out the name of the algorithm; the portal's are all adler32.
    if algorithm not in ("adler32", "") or not 1 <= len(digits) <= 8:
        raise ValueError(f"checksum {entry['checksum']!r} is not an adler32")
    size = int(entry["size"])
    if size <= 0:
        raise ValueError(f"size {size}")
    # Only the path is the record's: the bytes come from the server that gave the checksum.
    url = server + "/" + urlsplit(entry["uri"]).path.lstrip("/")
    return Published(FILENAME, size, int(digits, 16), url)
