"""Real collision events, downloaded: CMS Open Data, 61 million events, 2.2 GB.

Record 12341 of the CERN Open Data portal, "DoubleMuParked dataset from 2012 in NanoAOD format
reduced on muons" (S. Wunsch, 2019, doi:10.7483/OPENDATA.CMS.LVG5.QT81, CC0): every event of the
2012 runs B and C at 8 TeV that fired a double-muon trigger, with its muons and nothing else.
`gpucourse.data.nanoaod.read` gives it the same shape as the bundled toy.

**No lesson needs this file.**  Lecture 17 and project 3 end with its `first` events, where there
is a network.
"""

from __future__ import annotations

import os
from pathlib import Path

import awkward as ak
import numpy as np
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
    Damaged,
    DownloadRefused,
    FetchError,
    Published,
    Unreachable,
    cause,
    check_status,
    download,
    is_verified,
    session,
)
from gpucourse.data.nanoaod import read, write

__all__ = ["FetchError", "default_directory", "fetch", "first"]

RECORD = "https://opendata.cern.ch/record/12341"
FILENAME = "Run2012BC_DoubleMuParked_Muons.root"
#: Size and checksum are the record's (https://opendata.cern.ch/api/records/12341).
FILE = Published(
    FILENAME,
    2_244_449_133,
    0x1FA61ACA,
    f"https://opendata.cern.ch/eos/opendata/cms/derived-data/AOD2NanoAODOutreachTool/{FILENAME}",
)
_BLOCK = 1 << 20  # bytes in one request of `first`
_IMPATIENT = (3.0, 30.0)  # seconds to connect and to wait for bytes, during which a cell waits
_UNNEEDED = (
    "No lesson needs this file: dimuons() reads the events that come with the course, and "
    "dimuons(1_000_000) makes more."
)


def default_directory() -> Path:
    """Return the folder of fetched data: $GPUCOURSE_DATA, else the user's cache directory."""
    chosen = os.environ.get("GPUCOURSE_DATA")
    return Path(chosen) if chosen else platformdirs.user_cache_path("gpucourse")


def first(
    count: int = 100_000, directory: Path | None = None, *, file: Published = FILE
) -> ak.Array:
    """Return the first `count` of 61,540,413 real events.

    Their type is ``N * {muons: var * {pt, eta, phi, charge}}``.

    They are read from the file if `fetch` has downloaded it. If not, they are read from what an
    earlier call has kept or, if nothing is kept, over the network. The network transfers only the
    parts of the file that hold these events (for millions of events, call `fetch` first). A part
    has no published checksum; the size of the whole, and what charges and momenta can be, are
    checked.

    Raises FetchError, after some seconds, where there is no network: the message says what is
    left undone and how to do it later.
    """
    directory = Path(directory or default_directory())
    if (directory / file.name).exists():
        return read(directory / file.name, count)
    kept = directory / f"first_{count}_of_{file.name}"
    if not kept.exists():
        with session(1, 0.5) as web:
            found = read(_Remote(file, web), count)
        muons = found.muons
        if len(found) < count or not (
            ak.all(np.isfinite(muons.pt) & (muons.pt > 0) & (abs(muons.charge) == 1))
        ):
            raise Damaged(f"{file.url} does not hold {count:,} events of muons.  {_UNNEEDED}")
        directory.mkdir(parents=True, exist_ok=True)
        write(kept, found)
    return read(kept)


def fetch(
    directory: Path | None = None,
    *,
    file: Published = FILE,
    progress: bool = True,
    attempts: int = 5,
    pause: float = 2.0,
) -> Path:
    """Bring the CMS dimuon file into `directory` and return its path, checked.

    Size and checksum are those of the published record. A broken download continues where it
    stopped. An existing file is checked and, if it is right, needs no network. `attempts` and
    `pause` [s] control the retries on a bad connection.

    Raises FetchError with a message that says what to do if there is no network, the server
    refuses, the file is damaged or the disk is full. A part that may be good is kept for the next
    call.
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
        task = bar.add_task("connecting", total=file.size)

        def report(doing: str, done: int) -> None:
            bar.update(task, description=doing, completed=done)

        if is_verified(directory, file, report):
            return directory / file.name
        _Remote(file, web).read(1)  # check for a network before the retries begin
        return download(file, directory, web, report, attempts=attempts, pause=pause)


class _Remote:
    """A file on a web server for uproot, which reads it in blocks, each of them once."""

    def __init__(self, file: Published, web: requests.Session) -> None:
        self._file, self._web = file, web
        self._blocks: dict[int, bytes] = {}
        self._at = 0

    def seek(self, at: int) -> None:
        self._at = at

    def read(self, count: int) -> bytes:
        start, self._at = self._at, min(self._at + count, self._file.size)
        numbers = range(start // _BLOCK, -(-self._at // _BLOCK))
        for number in numbers:
            if number not in self._blocks:
                self._blocks[number] = self._ask(number * _BLOCK)
        joined = b"".join(self._blocks[number] for number in numbers)
        return joined[start % _BLOCK :][: self._at - start]

    def _ask(self, start: int) -> bytes:
        url, last = self._file.url, min(start + _BLOCK, self._file.size) - 1
        asked = f"bytes {start}-{last}/{self._file.size}"
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={start}-{last}"}
        try:
            # The response is streamed, because a server without ranges would send all 2.2 GB.
            with self._web.get(url, headers=headers, timeout=_IMPATIENT, stream=True) as answer:
                check_status(answer, url)
                served = answer.headers.get("Content-Range")
                if served != asked:
                    raise DownloadRefused(
                        f"{url} answered with {served or 'no range'} to {asked}: the file has "
                        f"changed since it was published, or this is a page about it.  {_UNNEEDED}"
                    )
                return answer.content
        except requests.RequestException as error:
            raise Unreachable(
                f"Cannot reach {url} ({cause(error)}): there is no network here, or a proxy is "
                f"needed (HTTPS_PROXY).\n{_UNNEEDED}\nWith a network, run `gpucourse data fetch`; "
                "a download that was begun goes on where it stopped.  Or download "
                f"{self._file.name} elsewhere from {RECORD} and put it into {default_directory()}."
            ) from error
