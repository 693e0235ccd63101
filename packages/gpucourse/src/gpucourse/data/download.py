"""Download of one large file of known size and checksum, over an unreliable network.

The bytes are collected in ``NAME.CHECKSUM.part``, which is kept after a failure, and a second call
continues where the first stopped (HTTP Range). Only when all bytes are on the disk and the
checksum is right is the part renamed to its final name. Only one download of a file may run at a
time, because two would damage each other's part, which the checksum then reveals.

The connections use `requests`. JupyterLab's own server uses it as well, so it is installed
already, and its proxies and certificates work for the rest of the course. `pooch` is the usual
choice for sample data, but it starts from zero after a broken download.
"""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from gpucourse.system.errors import CourseError

TIMEOUT = (10.0, 60.0)  # seconds to connect, and to wait for the next bytes
_BLOCK = 1 << 18  # bytes that a broken connection can lose at most
_ENOUGH = 1 << 20  # bytes that count as progress and reset the number of attempts
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # statuses after which a retry makes sense

Report = Callable[[str, int], None]
"""Called with what is being done and the number of bytes done so far."""


class FetchError(CourseError):
    """The file could not be downloaded; the message says why and what to do next."""


class Unreachable(FetchError):
    """There is no network or no such server, or it is too busy; a later attempt may work."""


class DownloadRefused(FetchError):
    """The server refused, or its answer makes no sense."""


class Damaged(FetchError):
    """A download, or a file that a server offers, is not the published file."""


@dataclass(frozen=True)
class Published:
    """Published facts of a file: `size` in bytes, `adler32` checksum, `url`."""

    name: str
    size: int
    adler32: int
    url: str


def session(attempts: int, pause: float) -> requests.Session:
    """Return a requests session that retries busy servers.

    It tries `attempts` times, with `pause` [s] growing.
    """
    retry = Retry(
        total=attempts,
        connect=1,
        read=1,
        backoff_factor=pause,
        status_forcelist=_BUSY,
        raise_on_status=False,
        # A server may ask to wait for hours. Five attempts and a message are better for the user.
        respect_retry_after_header=False,
    )
    made = requests.Session()
    for scheme in ("https://", "http://"):
        made.mount(scheme, HTTPAdapter(max_retries=retry))
    return made


def is_verified(directory: Path, file: Published, report: Report) -> bool:
    """Return True if `file` is there, whole, with the published checksum."""
    path = directory / file.name
    return _size(path) == file.size and adler32(path, report) == file.adler32


def download(
    file: Published,
    directory: Path,
    web: requests.Session,
    report: Report,
    *,
    attempts: int,
    pause: float,
) -> Path:
    """Download `file` into `directory`, continue an existing part, and return the path.

    Gives up after `attempts` connections in a row that each brought less than 1 MiB, with
    pauses of `pause`, 2 `pause`, 4 `pause`, ... seconds between them.  Raises a FetchError; the
    part stays unless it is damaged.
    """
    path = directory / file.name
    part = directory / f"{file.name}.{file.adler32:08x}.part"
    if path.exists() and not part.exists():
        # The file may have been put there by hand, so it is checked like our own downloads.
        os.replace(path, part)
    _check_space(directory, file.size - _size(part))
    transfer = _Transfer(file, part, web, report)
    for afresh in (False, True):
        # Bytes of an earlier day, or from several connections, are the likeliest to be wrong, so
        # the download starts once more without them.
        transfer.connections = 2 if _size(part) else 0
        transfer.fill(attempts, pause)
        found = adler32(part, report)
        if found == file.adler32:
            os.replace(part, path)
            return path
        part.unlink()
        if afresh or transfer.connections < 2:
            break
    raise Damaged(
        f"{file.name} arrived damaged: its checksum is adler32:{found:08x}, the publisher's "
        f"is adler32:{file.adler32:08x}.  It was removed; run the same command again to "
        "download it afresh."
    )


def adler32(path: Path, report: Report) -> int:
    """Return the Adler-32 checksum (RFC 1950) of a file, read from the disk."""
    value, done = 1, 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            value = zlib.adler32(block, value)
            done += len(block)
            report("checking", done)
    return value


def check_status(response: requests.Response, url: str) -> None:
    """Raise the FetchError that explains an unexpected status; 200 and an expected 206 pass."""
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
    raise DownloadRefused(f"{url} refuses: HTTP {status} {response.reason}.  {meaning}")


@dataclass
class _Transfer:
    """The bytes of `file` on their way into `part`, over so many `connections`."""

    file: Published
    part: Path
    web: requests.Session
    report: Report
    connections: int = 0

    def fill(self, attempts: int, pause: float) -> None:
        """Connect repeatedly until `part` is as long as the file, or give up."""
        failures = 0
        while (before := _size(self.part)) < self.file.size:
            reason = "the connection closed early"
            self.connections += 1
            try:
                self._connect(before)
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

    def _connect(self, start: int) -> None:
        """Download from byte `start` over one connection, which may end early."""
        # Compression would change the bytes that Range and the size refer to.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        url = self.file.url
        with self.web.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            status, served = response.status_code, response.headers.get("Content-Range", "")
            if status == 416 or (status == 206 and not served.startswith(f"bytes {start}-")):
                # There are no more bytes at this position, so the file is new or the part was
                # wrong.
                self.part.unlink(missing_ok=True)
                return
            check_status(response, url)
            self._store(response, start if status == 206 else 0)

    def _store(self, response: requests.Response, start: int) -> None:
        """Write the body of a response into the part, from byte `start`."""
        expected, offered = self.file.size - start, response.headers.get("Content-Length")
        if offered not in (None, str(expected)):
            raise Damaged(
                f"{self.file.url} offers {offered} bytes where its record promises {expected}. "
                "Either the file has changed since it was published, or the address gives a page "
                "instead of the file. Open the address in a browser to see."
            )
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


def _check_space(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise FetchError(
            f"{directory} has {free / 1e9:.1f} GB free, but {needed / 1e9:.1f} GB are needed. "
            "Make room, or choose another directory."
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def cause(error: BaseException) -> str:
    """Return the innermost cause of a chain of library errors in one line."""
    while below := error.__cause__ or error.__context__:
        error = below
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
