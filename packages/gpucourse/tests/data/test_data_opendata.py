"""The download of the CMS file, against a server on this machine that fails in every way."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from gpucourse.data import dimuons, download, nanoaod, opendata
from gpucourse.data.download import Published
from gpucourse.data.opendata import FILE, FILENAME, FetchError, fetch, first

CONTENT = np.random.PCG64(5).random_raw(400_000).tobytes() + b"end"  # 3.2 MB, odd length
FILE_PATH = f"/eos/opendata/cms/derived-data/AOD2NanoAODOutreachTool/{FILENAME}"


def published(portal: Portal, content: bytes = CONTENT) -> Published:
    """What a publisher would say of `content`."""
    return Published(FILENAME, len(content), zlib.adler32(content), portal.address + FILE_PATH)


class Portal(ThreadingHTTPServer):
    """A server of one file; `plan` says how to treat requests for all that follows a byte.

    Requests for a part of it, with a first and a last byte, are answered unless `knows_ranges` is
    False; `parts` counts them.

    Each step of the plan is a dict: status, cut (close after so many bytes), ignore_range,
    shift (of the range sent), chunked (no Content-Length), length (a false one), stall.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), PortalRequest)
        self.content = CONTENT
        self.plan: list[dict] = []
        self.asked: list[int] = []  # first byte of each request of the plan's
        self.parts, self.knows_ranges = 0, True
        self.claimed: int | None = None  # the length that answers to requests for a part name
        self.over = threading.Event()

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
        if self.path != FILE_PATH:
            self.send_error(404)
        elif (self.headers.get("Range") or "-")[-1] != "-" and self.server.knows_ranges:
            self.send_part()
        else:
            self.send_file(self.server.plan.pop(0) if self.server.plan else {})

    def send_part(self) -> None:
        content = self.server.content
        self.server.parts += 1
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = content[first : last + 1]
        self.send_response(206)
        end = first + len(body) - 1
        total = self.server.claimed or len(content)
        self.send_header("Content-Range", f"bytes {first}-{end}/{total}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, step: dict) -> None:
        portal, content = self.server, self.server.content
        wanted = self.headers.get("Range") if portal.knows_ranges else None
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


def bring(portal: Portal, directory: Path, content: bytes = CONTENT, attempts: int = 3) -> Path:
    file = published(portal, content)
    return fetch(directory, file=file, progress=False, attempts=attempts, pause=0.0)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_fetched_whole_and_then_used_without_the_network(portal: Portal, tmp_path: Path) -> None:
    path = bring(portal, tmp_path / "new")
    assert path == tmp_path / "new" / FILENAME
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == {FILENAME}
    asked = (portal.parts, len(portal.asked))
    assert asked == (1, 1)
    assert bring(portal, tmp_path / "new") == path
    assert (portal.parts, len(portal.asked)) == asked


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
    portal.asked.clear()
    assert bring(portal, tmp_path, portal.content).read_bytes() == portal.content
    assert portal.asked == [0]


def test_the_file_changes_during_the_download(portal: Portal, tmp_path: Path) -> None:
    portal.plan = [{"cut": 1_500_000}]
    changed = CONTENT[::-1]
    original = PortalRequest.send_file

    def change_after_the_first(request: PortalRequest, step: dict) -> None:
        if portal.asked:
            portal.content = changed
        original(request, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PortalRequest, "send_file", change_after_the_first)
        assert bring(portal, tmp_path, changed).read_bytes() == changed


@pytest.mark.parametrize(
    ("step", "message"),
    [({"length": 5000}, "offers 5000 bytes"), ({"chunked": True}, "sends more bytes")],
)
def test_a_file_of_the_wrong_length(
    portal: Portal, tmp_path: Path, step: dict, message: str
) -> None:
    portal.content, portal.plan, portal.claimed = CONTENT + b"more", [step], len(CONTENT)
    with pytest.raises(download.Damaged, match=message):
        bring(portal, tmp_path)
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("status", "word"), [(403, "does not let"), (404, "moved"), (401, "login")]
)
def test_refusal_of_the_file(portal: Portal, tmp_path: Path, status: int, word: str) -> None:
    portal.plan = [{"status": status}]
    with pytest.raises(download.DownloadRefused, match=rf"HTTP {status}.*{word}"):
        bring(portal, tmp_path)
    assert len(portal.asked) == 1


def test_a_busy_server_is_asked_again(portal: Portal, tmp_path: Path) -> None:
    portal.plan = [{"status": 503}, {"status": 429}]
    assert bring(portal, tmp_path).read_bytes() == CONTENT
    assert len(portal.asked) == 3


def test_a_server_that_stays_busy(portal: Portal, tmp_path: Path) -> None:
    portal.plan = [{"status": 503}] * 5
    with pytest.raises(download.Unreachable, match="busy"):
        bring(portal, tmp_path)


def no_network() -> Published:
    """A file of a server that is not there."""
    return Published(FILENAME, len(CONTENT), 1, f"http://127.0.0.1:9{FILE_PATH}")


@pytest.mark.parametrize("wish", [fetch, first])
def test_no_network(
    wish: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOURSE_DATA", str(tmp_path))
    start = time.monotonic()
    with pytest.raises(download.Unreachable) as raised:
        wish(file=no_network())
    assert time.monotonic() - start < 30.0  # a cell waits for it
    message = str(raised.value)
    for needed in ("Cannot reach", "No lesson needs this file", "dimuons()", str(tmp_path)):
        assert needed in message
    assert names(tmp_path) == set()


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
    assert bring(portal, tmp_path).read_bytes() == CONTENT


def test_progress_goes_to_stderr(
    portal: Portal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(tmp_path, file=published(portal), attempts=1, pause=0.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "3.2/3.2 MB" in captured.err


def test_what_the_record_publishes() -> None:
    assert (FILE.name, FILE.size, FILE.adler32) == (FILENAME, 2_244_449_133, 0x1FA61ACA)
    assert FILE.url == f"https://opendata.cern.ch{FILE_PATH}"


@pytest.fixture(scope="module")
def events_on_the_server(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """60,000 events in baskets of 2,000, as a file that a detector fills has many of them."""
    path = tmp_path_factory.mktemp("server") / FILENAME
    muons = dimuons(60_000).muons
    with uproot.recreate(path) as file:
        tree = file.mktree(nanoaod.TREE, {"Muon": muons.type.content})
        for start in range(0, len(muons), 2000):
            tree.extend({"Muon": muons[start : start + 2000]})
    return path.read_bytes()


def test_the_first_events_come_without_the_rest(
    portal: Portal, tmp_path: Path, events_on_the_server: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opendata, "_BLOCK", 1 << 14)
    portal.content = content = events_on_the_server
    file = published(portal, content)
    assert ak.array_equal(first(2000, tmp_path, file=file), dimuons(60_000)[:2000])
    asked = portal.parts
    assert asked * opendata._BLOCK < len(content) / 2 and portal.asked == []
    assert ak.array_equal(first(2000, tmp_path, file=file), dimuons(60_000)[:2000])  # kept
    assert portal.parts == asked
    assert names(tmp_path) == {f"first_2000_of_{FILENAME}"}
    (tmp_path / FILENAME).write_bytes(content)
    assert len(first(50, tmp_path, file=no_network())) == 50  # the whole file is there


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (
            lambda portal: setattr(portal, "knows_ranges", False),
            download.DownloadRefused,
            "no range",
        ),
        (lambda portal: setattr(portal, "claimed", 7), download.DownloadRefused, "has changed"),
        (lambda portal: None, download.Damaged, "does not hold 60,001 events"),
    ],
)
def test_a_server_with_another_file_or_no_ranges(
    portal: Portal,
    tmp_path: Path,
    events_on_the_server: bytes,
    spoil: Callable[[Portal], None],
    error: type[FetchError],
    message: str,
) -> None:
    portal.content = events_on_the_server
    spoil(portal)
    with pytest.raises(error, match=message):
        first(60_001, tmp_path, file=published(portal, portal.content))
    assert names(tmp_path) == set()


@pytest.mark.parametrize(("column", "value"), [("pt", np.nan), ("pt", -1.0), ("charge", 0)])
def test_events_that_cannot_be(portal: Portal, tmp_path: Path, column: str, value: float) -> None:
    events = dimuons(3000)
    muons = {name: ak.to_numpy(ak.flatten(events.muons[name])) for name in nanoaod.COLUMNS}
    muons[column][17] = value
    counts = ak.num(events.muons)
    spoiled = ak.zip({name: ak.unflatten(values, counts) for name, values in muons.items()})
    nanoaod.write(tmp_path / "spoiled", ak.zip({"muons": spoiled}, depth_limit=1))
    portal.content = (tmp_path / "spoiled").read_bytes()
    with pytest.raises(download.Damaged, match="does not hold 3,000 events of muons"):
        first(3000, tmp_path / "data", file=published(portal, portal.content))
