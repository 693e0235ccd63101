"""Between the two processes: only JSON and plain arrays, of stated size, in time."""

from __future__ import annotations

import io
import json
import pickle
import socket
import time

import numpy as np
import pytest

from gpucourse.grading import wire

VALUES = [
    None, True, "text", 0, -(2**70), 1.5, float("inf"), np.float32(2.5), np.int8(-3),
    np.arange(6).reshape(2, 3), np.zeros((0, 4), np.float32), np.array(7.0),
    np.arange(10)[::3], [1, [2.0, "x"]], (1, 2), {"a": np.ones(2, bool)},
]


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield wire.Wire(ours, 10_000, 100_000), wire.Wire(theirs, 10_000, 100_000)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_arrive_as_they_left(pair, value):
    ours, theirs = pair
    arrays = []
    tree = wire.encode(value, arrays)
    ours.send({"value": tree}, arrays)
    header, received = theirs.receive(time.monotonic() + 5)
    again = wire.decode(header["value"], received)
    assert type(again) is type(value)
    if isinstance(value, (np.ndarray, np.generic)):
        assert again.dtype == value.dtype
        np.testing.assert_array_equal(again, value)
    else:
        np.testing.assert_equal(again, value)


def test_threat_05_only_plain_values_can_be_sent():
    class AlwaysEqual:
        __eq__ = lambda self, other: True  # noqa: E731

    class Loud(np.ndarray):
        def __eq__(self, other):
            return True

    for value in (AlwaysEqual(), object(), lambda: 1, np.array([None]), {1: 2}, {1, 2}):
        with pytest.raises(TypeError):
            wire.encode(value, [])
    arrays = []
    wire.encode(np.arange(3).view(Loud), arrays)
    assert type(wire.unpack_array(wire.pack_array(arrays[0]))) is np.ndarray


def test_threat_09_pickles_are_never_loaded(monkeypatch):
    monkeypatch.setattr(pickle, "load", lambda *a, **k: pytest.fail("unpickled"))
    monkeypatch.setattr(pickle, "loads", lambda *a, **k: pytest.fail("unpickled"))
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array([print]), allow_pickle=True)
    with pytest.raises(wire.ProtocolError):
        wire.unpack_array(stream.getvalue())
    with pytest.raises(wire.ProtocolError):
        wire.unpack_array(pickle.dumps([1]))


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


@pytest.mark.parametrize("data", [
    b"", b"\x93NUMPY", npy("{}"), npy("[" * 100),
    npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"),
    npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"),
    npy("{'descr': '<f8', 'fortran_order': True, 'shape': (1, 1)}", bytes(8)),
    npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
    npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", bytes(8)),
    npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(9)),
])
def test_threat_10_forged_arrays_are_refused_before_memory_is_taken(data):
    with pytest.raises(wire.ProtocolError):
        wire.unpack_array(data)


@pytest.mark.parametrize("tree", [
    None, 3, {"t": "int"}, {"t": "int", "v": 5}, {"t": "int", "v": "9" * 1000}, {"t": "x", "v": 1},
    {"t": "array", "v": 0}, {"t": "array", "v": True}, {"t": "plain", "v": 1.0},
    {"t": "float", "v": "zz"}, {"t": "device", "v": {}}, {"t": "list", "v": {"t": "int"}},
    {"t": "list", "v": [{"t": "plain", "v": None}] * 20_000}, {"t": "plain", "v": None, "w": 1},
])
def test_threat_10_forged_values_are_refused(tree):
    with pytest.raises(wire.ProtocolError):
        wire.decode(tree, [])


@pytest.mark.parametrize("data", [
    b"x" * 100,
    wire.HEAD.pack(wire.MAGIC, 1 << 30),
    wire.HEAD.pack(wire.MAGIC, 2) + b"{]",
    wire.HEAD.pack(wire.MAGIC, 2) + b"[]",
    wire.HEAD.pack(wire.MAGIC, 2) + b"{}",
    wire.HEAD.pack(wire.MAGIC, 9000) + b"[" * 9000,
    wire.HEAD.pack(wire.MAGIC, 24) + json.dumps({"arrays": [999999999]}).encode().ljust(24),
    wire.HEAD.pack(wire.MAGIC, 16) + json.dumps({"arrays": [-1]}).encode().ljust(16),
    wire.HEAD.pack(wire.MAGIC, 50) + b"cut",
    wire.HEAD.pack(b"HTTP", 13) + b'{"arrays":[]}',
    wire.HEAD.pack(wire.MAGIC, 10_001) + b'{"arrays":[]}'.ljust(10_001),
])
def test_threat_10_what_is_not_a_message_ends_the_conversation(pair, data):
    ours, theirs = pair
    ours.socket.sendall(data)
    ours.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(wire.ProtocolError):
        theirs.receive(time.monotonic() + 5)


def test_silence_is_not_waited_for(pair):
    ours, theirs = pair
    ours.socket.sendall(wire.MAGIC)
    with pytest.raises(wire.OutOfTime):
        theirs.receive(time.monotonic() + 0.05)
