"""Download one large file of known size and checksum, over a network that fails.

The bytes gather in ``NAME.part``, which survives every failure, and a second call goes on where
the first stopped (HTTP Range).  Beside it ``NAME.json`` remembers what the part is a part of, so
that two versions of a file are never glued together.  Only when all bytes are on the disk and
their checksum is right does the part take its final name, in one step.  One download of a file
at a time: two at once spoil each other's part, which the checksum then catches.

`requests` does the talking: it is what JupyterLab's own server uses, so it is installed already
and its proxies and certificates are those that work for the rest of the course.  `pooch` is the
usual choice for sample data, but it starts again from zero when a download breaks.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from gpucourse.system.told import Told

TIMEOUT = (10.0, 60.0)  # seconds to connect, and to wait for the next bytes
_BLOCK = 1 << 18  # bytes; what a broken connection loses at most
_ENOUGH = 1 << 20  # bytes that count as progress, so that patience starts anew
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # worth another try

Report = Callable[[str, int], None]
"""Called with what is being done and the number of bytes done so far."""


class FetchError(Told):
    """The file could not be had; the message says why and what to do next."""


class Unreachable(FetchError):
    """No network, no such server, or it is too busy; later it may work."""


class Refused(FetchError):
    """The server answered and said no, or something that makes no sense."""


class Damaged(FetchError):
    """What arrived, or what the server offers, is not the file that was published."""


@dataclass(frozen=True)
class Published:
    """What the publisher says of a file: `size` in bytes, `adler32` checksum, `url`."""

    name: str
    size: int
    adler32: int
    url: str


def session(attempts: int, pause: float) -> requests.Session:
    """A requests session that tries busy servers `attempts` times, `pause` [s] growing."""
    retry = Retry(
        total=attempts,
        connect=1,
        read=1,
        backoff_factor=pause,
        status_forcelist=_BUSY,
        raise_on_status=False,
        # A server may ask for hours; five tries and a message are kinder.
        respect_retry_after_header=False,
    )
    made = requests.Session()
    for scheme in ("https://", "http://"):
        made.mount(scheme, HTTPAdapter(max_retries=retry))
    return made


def is_verified(directory: Path, name: str, report: Report) -> bool:
    """Whether `name` is there, whole, and what ``NAME.json`` says was published."""
    path, memory = directory / name, _remember(directory / f"{name}.json")
    if not path.exists() or memory is None:
        return False
    return path.stat().st_size == memory["size"] and adler32(path, report) == memory["adler32"]


def download(
    file: Published,
    directory: Path,
    web: requests.Session,
    report: Report,
    *,
    attempts: int,
    pause: float,
) -> Path:
    """Bring `file` into `directory` and return its path; continue a part that is there.

    Gives up after `attempts` connections in a row that each brought less than 1 MiB, with
    pauses of `pause`, 2 `pause`, 4 `pause`, ... seconds between them.  Raises a FetchError; the
    part stays unless it is damaged.
    """
    path, part = directory / file.name, directory / f"{file.name}.part"
    note = directory / f"{file.name}.json"
    memory = _remember(note)
    if memory is None or (memory["size"], memory["adler32"]) != (file.size, file.adler32):
        part.unlink(missing_ok=True)
        memory = asdict(file)
    if path.exists() and not part.exists():
        # Put there by hand: it has to pass the same inspection as our own bytes.
        os.replace(path, part)
    _check_space(directory, file.size - _size(part))

    transfer = _Transfer(file, part, note, memory, web, report)
    fresh = _size(part) == 0
    transfer.fill(attempts, pause)
    found = adler32(part, report)
    if found != file.adler32 and not fresh:
        # Bytes from an earlier day are the likeliest to be wrong: once more, without them.
        part.unlink()
        transfer.fill(attempts, pause)
        found = adler32(part, report)
    if found != file.adler32:
        part.unlink()
        raise Damaged(
            f"{file.name} arrived damaged: its checksum is adler32:{found:08x}, the publisher's "
            f"is adler32:{file.adler32:08x}.  It was removed; run the same command again to "
            "download it afresh."
        )
    _write_note(note, memory)
    os.replace(part, path)
    return path


def adler32(path: Path, report: Report) -> int:
    """The Adler-32 checksum (RFC 1950) of a file, read from the disk."""
    value, done = 1, 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            value = zlib.adler32(block, value)
            done += len(block)
            report("checking", done)
    return value


def check_status(response: requests.Response, url: str) -> None:
    """Raise the FetchError that explains a status other than 200 or an expected 206."""
    status = response.status_code
    if status == 200 or (status == 206 and "Range" in response.request.headers):
        return
    if status in _BUSY:
        raise Unreachable(f"{url} is busy (HTTP {status} {response.reason}); try again later.")
    meaning = {
        401: "It asks for a login: perhaps a proxy on the way does.",
        403: "It does not let this machine or network in.",
        404: "It has moved or is gone: look it up on the portal.",
    }.get(status, "That is no answer to a download.")
    raise Refused(f"{url} refuses: HTTP {status} {response.reason}.  {meaning}")


@dataclass
class _Transfer:
    """The bytes of `file` on their way into `part`; `memory` is what `note` holds."""

    file: Published
    part: Path
    note: Path
    memory: dict
    web: requests.Session
    report: Report

    def fill(self, attempts: int, pause: float) -> None:
        """Connect again and again until `part` is as long as the file, or give up."""
        failures = 0
        while (before := _size(self.part)) < self.file.size:
            reason = "the connection closed early"
            try:
                self._connect()
            except requests.RequestException as error:
                reason = cause(error)
            except OSError as error:
                raise FetchError(f"Cannot write {self.part}: {error}.") from error
            now = _size(self.part)
            if now == self.file.size:
                return
            failures = 1 if now - before >= _ENOUGH else failures + 1
            if failures >= attempts:
                raise Unreachable(
                    f"The download of {self.file.name} keeps breaking off ({reason}).  "
                    f"{now:,} of {self.file.size:,} bytes are kept in {self.part}; "
                    "run the same command again and it goes on from there."
                )
            time.sleep(min(pause * 2 ** (failures - 1), 60.0))

    def _connect(self) -> None:
        """One connection's worth of bytes; it may end early."""
        start = _size(self.part)
        # Compressed on the way, the bytes would not be those that Range and the size count.
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
            if self.memory.get("version"):
                # "Go on if it is still the same file, else send it whole" (RFC 9110, 13.1.5).
                headers["If-Range"] = self.memory["version"]
        url = self.file.url
        with self.web.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            status = response.status_code
            if status == 416 or (status == 206 and not self._continues(response, start)):
                # Nothing beyond what is here: a new file, or a part that was wrong.
                self.part.unlink(missing_ok=True)
                return
            check_status(response, url)
            self._store(response, start if status == 206 else 0)

    def _continues(self, response: requests.Response, start: int) -> bool:
        """Whether a 206 answer carries on from `start` in the file we have begun."""
        ours, theirs = self.memory.get("version"), _version(response)
        same = not ours or not theirs or ours == theirs
        return same and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")

    def _store(self, response: requests.Response, start: int) -> None:
        """Write the body of an answer into the part, from byte `start` on."""
        expected, offered = self.file.size - start, response.headers.get("Content-Length")
        if offered not in (None, str(expected)):
            raise Damaged(
                f"{self.file.url} offers {offered} bytes where its record promises {expected}.  "
                "The file has changed since it was published, or this is not the file but a page "
                "about it; open the address in a browser to see."
            )
        self.memory["version"] = _version(response)
        _write_note(self.note, self.memory)
        with self.part.open("ab" if start else "wb") as stream:
            for block in response.iter_content(_BLOCK):
                start += len(block)
                if start > self.file.size:
                    break
                stream.write(block)
                self.report("downloading", start)
            stream.flush()
            os.fsync(stream.fileno())
        if start > self.file.size:
            self.part.unlink()
            raise Damaged(f"{self.file.url} sends more bytes than its record promises.")


def _version(response: requests.Response) -> str:
    """What names this version of the file in If-Range: a strong ETag, else the date, else ''."""
    etag = response.headers.get("ETag", "")
    return etag if etag.startswith('"') else response.headers.get("Last-Modified", "")


def _check_space(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise FetchError(
            f"{directory} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are to come.  "
            "Make room, or choose another directory."
        )


def _remember(note: Path) -> dict | None:
    """What NAME.json says, or None if it is missing or unreadable."""
    try:
        memory = json.loads(note.read_text(encoding="utf-8"))
        return memory if {"size", "adler32"} <= memory.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _write_note(note: Path, memory: dict) -> None:
    part = note.with_name(f"{note.name}.part")
    part.write_text(json.dumps(memory, indent=2) + "\n", encoding="utf-8")
    os.replace(part, note)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def cause(error: BaseException) -> str:
    """The cause at the bottom of a chain of library errors, in one line."""
    while below := error.__cause__ or error.__context__:
        error = below
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
