"""The download of the CMS file, against a server on this machine that fails in every way."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

from gpucourse.data import dimuons, download, nanoaod, opendata
from gpucourse.data.opendata import FILENAME, FetchError, fetch

CONTENT = np.random.PCG64(5).random_raw(400_000).tobytes() + b"end"  # 3.2 MB, odd length
FILE_PATH = f"/eos/opendata/cms/derived-data/AOD2NanoAODOutreachTool/{FILENAME}"


def entry(content: bytes = CONTENT, **changes: object) -> dict:
    """The file's entry in the record, as the portal writes it."""
    made = {
        "bucket": "4997a85c-01fd-46c5-95f2-ddcabd400384",
        "checksum": f"adler32:{zlib.adler32(content):08x}",
        "key": FILENAME,
        "size": len(content),
        "uri": f"root://eospublic.cern.ch/{FILE_PATH}",
    }
    return made | changes


class Portal(ThreadingHTTPServer):
    """A portal of one record and one file; `plan` says how to treat the coming file requests.

    Each step of the plan is a dict: status, cut (close after so many bytes), ignore_range,
    shift (of the range sent), chunked (no Content-Length), length (a false one), stall.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), PortalRequest)
        self.content, self.record_status = CONTENT, [200]
        self.record: object = {"metadata": {"files": [entry()]}}
        self.plan: list[dict] = []
        self.asked: list[int] = []  # first byte of each file request
        self.looked_up, self.over = 0, threading.Event()

    def handle_error(self, *args: object) -> None:
        """A client that hangs up is what some tests are about."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class PortalRequest(BaseHTTPRequestHandler):
    server: Portal

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/api/records/12341":
            self.send_record()
        elif self.path == FILE_PATH:
            self.send_file(self.server.plan.pop(0) if self.server.plan else {})
        else:
            self.send_error(404)

    def send_record(self) -> None:
        portal = self.server
        portal.looked_up += 1
        status = portal.record_status.pop(0) if len(portal.record_status) > 1 else None
        record = portal.record
        body = record if isinstance(record, bytes) else json.dumps(record).encode()
        self.send_response(status or portal.record_status[0])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, step: dict) -> None:
        portal, content = self.server, self.server.content
        wanted = self.headers.get("Range")
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        portal.asked.append(first)
        if "status" in step:
            self.send_error(step["status"])
            return
        if step.get("ignore_range"):
            first = 0
        if first >= len(content):
            self.send_error(416)
            return
        ranged = wanted is not None and first > 0
        first += step.get("shift", 0)
        body = content[first:]
        self.send_response(206 if ranged else 200)
        if ranged:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        if not step.get("chunked"):
            self.send_header("Content-Length", str(step.get("length", len(body))))
        self.end_headers()
        self.wfile.write(body[: step.get("cut", len(body))])
        self.wfile.flush()
        if step.get("stall"):
            self.server.over.wait(60.0)
        self.close_connection = True


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Portal]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = Portal()
    # The default asks twice a second whether to stop: half a second for every test.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()
    thread.join()


def bring(portal: Portal, directory: Path, attempts: int = 3) -> Path:
    return fetch(directory, server=portal.address, progress=False, attempts=attempts, pause=0.0)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_fetched_whole_and_then_used_without_the_network(portal: Portal, tmp_path: Path) -> None:
    path = bring(portal, tmp_path / "new")
    assert path == tmp_path / "new" / FILENAME
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == {FILENAME, f"{FILENAME}.json"}
    assert (portal.looked_up, len(portal.asked)) == (1, 1)
    assert fetch(tmp_path / "new", server="http://127.0.0.1:9", progress=False) == path


@pytest.mark.parametrize("chunked", [False, True], ids=["with length", "without length"])
def test_goes_on_after_a_short_read(portal: Portal, tmp_path: Path, chunked: bool) -> None:
    portal.plan = [{"cut": 1_500_000, "chunked": chunked}, {"cut": 900_000, "chunked": chunked}]
    assert bring(portal, tmp_path).read_bytes() == CONTENT
    starts = portal.asked
    assert starts[0] == 0
    assert 1_000_000 < starts[1] <= 1_500_000 < starts[2] <= 2_400_000


def test_goes_on_in_a_later_call(portal: Portal, tmp_path: Path) -> None:
    portal.plan = [{"cut": 2_000_000}, {"cut": 0}]
    with pytest.raises(download.Unreachable, match=r"keeps breaking off.*run the same command"):
        bring(portal, tmp_path, attempts=2)
    (part,) = tmp_path.iterdir()
    kept = part.stat().st_size
    assert bring(portal, tmp_path).read_bytes() == CONTENT
    assert portal.asked[-1] == kept
    assert 1_500_000 < kept <= 2_000_000


def test_a_stalled_connection_is_left(
    portal: Portal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TIMEOUT", (1.0, 0.1))
    portal.plan = [{"cut": 1_100_000, "stall": True}]
    start = time.monotonic()
    assert bring(portal, tmp_path).read_bytes() == CONTENT
    assert time.monotonic() - start < 30.0  # the server keeps it open for 60 s
    # A busy machine may be taken for a stalled one once more: it goes on from the same byte.
    assert portal.asked[0] == 0 and set(portal.asked[1:]) == {1 << 20}


def test_patience_starts_anew_when_bytes_arrive(portal: Portal, tmp_path: Path) -> None:
    portal.plan = [{"cut": 0}, {"cut": 1_400_000}, {"cut": 0}, {}]
    assert bring(portal, tmp_path, attempts=3).read_bytes() == CONTENT


@pytest.mark.parametrize("step", [{"ignore_range": True}, {"shift": 7}, {"status": 416}])
def test_a_server_that_cannot_continue(portal: Portal, tmp_path: Path, step: dict) -> None:
    portal.plan = [{"cut": 1_500_000}, step]
    assert bring(portal, tmp_path).read_bytes() == CONTENT


def test_damage_on_the_way(portal: Portal, tmp_path: Path) -> None:
    portal.content = CONTENT[:1000] + b"\0" + CONTENT[1001:]
    with pytest.raises(
        download.Damaged, match=r"arrived damaged: its checksum is adler32:[0-9a-f]"
    ):
        bring(portal, tmp_path)
    assert names(tmp_path) == set()
    portal.content = CONTENT
    assert bring(portal, tmp_path).read_bytes() == CONTENT


def test_damage_in_the_part_is_downloaded_again(portal: Portal, tmp_path: Path) -> None:
    portal.plan = [{"cut": 1_500_000}, {"cut": 0}]
    with pytest.raises(FetchError):
        bring(portal, tmp_path, attempts=2)
    (part,) = tmp_path.iterdir()
    part.write_bytes(b"damaged!" + part.read_bytes()[8:])
    portal.asked.clear()
    assert bring(portal, tmp_path).read_bytes() == CONTENT
    assert [first > 0 for first in portal.asked] == [True, False]


def test_damage_at_rest_is_found_and_mended(portal: Portal, tmp_path: Path) -> None:
    path = bring(portal, tmp_path)
    path.write_bytes(CONTENT[:-1] + b"?")
    assert bring(portal, tmp_path).read_bytes() == CONTENT


def test_a_part_of_another_version_is_not_continued(portal: Portal, tmp_path: Path) -> None:
    portal.plan = [{"cut": 1_500_000}, {"cut": 0}]
    with pytest.raises(FetchError):
        bring(portal, tmp_path, attempts=2)
    portal.content = CONTENT[::-1]
    portal.record = {"metadata": {"files": [entry(portal.content)]}}
    portal.asked.clear()
    assert bring(portal, tmp_path).read_bytes() == portal.content
    assert portal.asked == [0]


def test_the_file_changes_during_the_download(portal: Portal, tmp_path: Path) -> None:
    portal.plan = [{"cut": 1_500_000}]
    changed = CONTENT[::-1]
    portal.record = {"metadata": {"files": [entry(changed)]}}
    original = PortalRequest.send_file

    def change_after_the_first(request: PortalRequest, step: dict) -> None:
        if portal.asked:
            portal.content = changed
        original(request, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PortalRequest, "send_file", change_after_the_first)
        assert bring(portal, tmp_path).read_bytes() == changed


@pytest.mark.parametrize(
    ("step", "message"),
    [({"length": 5000}, "offers 5000 bytes"), ({"chunked": True}, "sends more bytes")],
)
def test_a_file_of_the_wrong_length(
    portal: Portal, tmp_path: Path, step: dict, message: str
) -> None:
    portal.content, portal.plan = CONTENT + b"more", [step]
    with pytest.raises(download.Damaged, match=message):
        bring(portal, tmp_path)
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("status", "word"), [(403, "does not let"), (404, "moved"), (401, "login")]
)
def test_refusal_of_the_file(portal: Portal, tmp_path: Path, status: int, word: str) -> None:
    portal.plan = [{"status": status}]
    with pytest.raises(download.Refused, match=rf"HTTP {status}.*{word}"):
        bring(portal, tmp_path)
    assert len(portal.asked) == 1


def test_a_busy_server_is_asked_again(portal: Portal, tmp_path: Path) -> None:
    portal.record_status = [503, 200]
    portal.plan = [{"status": 503}, {"status": 429}]
    assert bring(portal, tmp_path).read_bytes() == CONTENT
    assert (portal.looked_up, len(portal.asked)) == (2, 3)


def test_a_server_that_stays_busy(portal: Portal, tmp_path: Path) -> None:
    portal.record_status = [503]
    with pytest.raises(download.Unreachable, match="busy"):
        bring(portal, tmp_path)


def test_no_network(tmp_path: Path) -> None:
    with pytest.raises(download.Unreachable) as raised:
        fetch(tmp_path, server="http://127.0.0.1:9", progress=False, attempts=1, pause=0.0)
    message = str(raised.value)
    for needed in ("Cannot reach", "No lesson needs this file", "dimuons()", str(tmp_path)):
        assert needed in message


@pytest.mark.parametrize(
    "record",
    [
        b"<html>Welcome to the hotel</html>",
        [],
        {"metadata": {}},
        {"metadata": {"files": [entry(checksum="sha1:0123456789abcdef")]}},
        {"metadata": {"files": [entry(checksum="crc32:01234567")]}},
        {"metadata": {"files": [entry(checksum=None)]}},
        {"metadata": {"files": [entry(size=0)]}},
        {"metadata": {"files": [entry(size="big")]}},
        {"metadata": {"files": [{"uri": 7}]}},
    ],
)
def test_a_record_that_makes_no_sense(portal: Portal, tmp_path: Path, record: object) -> None:
    portal.record = record
    with pytest.raises(download.Refused, match=r"did not answer with a record.*No lesson needs"):
        bring(portal, tmp_path)
    assert portal.asked == []


def test_a_record_without_the_file(portal: Portal, tmp_path: Path) -> None:
    portal.record = {"metadata": {"files": [entry(uri="root://eospublic.cern.ch//eos/other")]}}
    with pytest.raises(download.Refused, match="no longer lists"):
        bring(portal, tmp_path)


def test_a_checksum_without_its_name_and_leading_zeros(portal: Portal, tmp_path: Path) -> None:
    # Some records of the portal have the bare digits, and some tools drop leading zeros.
    portal.content = b"\0" * 99
    assert zlib.adler32(portal.content) == 0x00630001
    portal.record = {"metadata": {"files": [entry(portal.content, checksum="630001")]}}
    assert bring(portal, tmp_path).read_bytes() == portal.content


def test_no_room(portal: Portal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(FetchError, match="Make room"):
        bring(portal, tmp_path)
    assert portal.asked == []


def test_a_file_put_there_by_hand_is_checked(portal: Portal, tmp_path: Path) -> None:
    (tmp_path / FILENAME).write_bytes(CONTENT)
    assert bring(portal, tmp_path).read_bytes() == CONTENT
    assert portal.asked == []
    (tmp_path / FILENAME).write_bytes(CONTENT + b"and something else")
    (tmp_path / f"{FILENAME}.json").unlink()
    assert bring(portal, tmp_path).read_bytes() == CONTENT


def test_progress_goes_to_stderr(
    portal: Portal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(tmp_path, server=portal.address, attempts=1, pause=0.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "3.2/3.2 MB" in captured.err


def test_real_events_have_the_shape_of_the_toy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOURSE_DATA", str(tmp_path))
    with pytest.raises(FetchError, match=r"gpucourse data fetch.*No lesson needs"):
        opendata.events()
    nanoaod.write(tmp_path / FILENAME, dimuons(100))
    assert ak.array_equal(opendata.events(stop=40), dimuons(40))
