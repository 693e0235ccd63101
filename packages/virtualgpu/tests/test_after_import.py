"""A module is awaited until it is loaded, whoever asks before whether it is there."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path

import pytest

from virtualgpu.after_import import _AfterImport, after_import, forget


@pytest.fixture
def awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The modules that the callback was called with; ``awaited_here`` and ``absent_here`` are
    awaited."""
    (tmp_path / "awaited_here.py").write_text("value = 41\n")
    monkeypatch.syspath_prepend(tmp_path)
    called: list = []
    for name in ("awaited_here", "absent_here"):
        after_import(name, called.append)
    yield called
    for name in ("awaited_here", "absent_here"):
        forget(name)
        sys.modules.pop(name, None)


def test_asking_whether_a_module_is_installed_uses_nothing_up(awaited):
    """PyTorch and transformers ask so for Triton before anything imports it."""
    for _ in range(2):
        assert find_spec("awaited_here").name == "awaited_here" and find_spec("absent_here") is None
    assert awaited == []
    module = importlib.import_module("awaited_here")
    assert awaited == [module] and module.value == 41
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    importlib.reload(module)
    assert awaited == [module], "once"


def test_a_module_that_is_made_from_its_spec_counts_as_loaded(awaited):
    spec = find_spec("awaited_here")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert awaited == [module]


def test_what_is_forgotten_between_question_and_import_is_not_called(awaited):
    spec = find_spec("awaited_here")
    forget("awaited_here")
    spec.loader.exec_module(module_from_spec(spec))
    importlib.import_module("awaited_here")
    assert awaited == []


def test_the_hook_goes_with_the_last_module(awaited):
    forget("absent_here")
    others = set(_AfterImport.callbacks) - {"awaited_here"}
    importlib.import_module("awaited_here")
    assert set(_AfterImport.callbacks) == others
    assert bool(others) == any(isinstance(one, _AfterImport) for one in sys.meta_path)
