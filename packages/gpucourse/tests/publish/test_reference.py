"""The reference of virtualgpu: every public name is on it, in Markdown that reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import virtualgpu
from gpucourse.publish.site import reference
from virtualgpu import errors


@pytest.fixture(scope="module")
def page() -> str:
    return reference.page()


def test_every_public_name_has_an_entry(page: str):
    entries = re.findall(r"(?m)^### (\w+)$", page)
    assert len(entries) == len(set(entries))
    assert set(virtualgpu.__all__) <= set(entries)
    assert {"Report", "Finding", "Profile", "Counters", "Launches", "TrapError"} <= set(entries)
    own = {
        name
        for name, one in vars(errors).items()
        if isinstance(one, type) and one.__module__ == errors.__name__
    }
    assert own and own <= set(entries)


def test_options_and_verbs_are_on_it(page: str):
    assert "- `--virtual-gpu-seed N`: run threads in" in page
    assert "- `virtual_gpu_seeds`: as --virtual-gpu-seed" in page
    for verb in ("run script.py", "ptx script.py", "doctor"):
        assert f"\n    virtualgpu {verb}" in page


def test_nothing_of_restructuredtext_is_left(page: str):
    assert not re.search(r":(?:class|func|mod|meth|data|attr):`", page)
    assert not re.search(r"(?m)^-{4,}$", page)
    assert page.count("```") % 2 == 0
    titles = [line for line in page.splitlines() if line.startswith("# ")]
    assert titles == ["# Reference of `virtualgpu`"]


def test_a_context_manager_says_what_with_gives():
    @contextmanager
    def watch(seed: int = 7) -> Iterator[list[int]]:
        """See :mod:`a.b` and :class:`~a.b.C`."""
        yield []

    assert reference.entry(watch) == (
        "### watch\n\n`with watch(seed: int = 7)`; gives a `list[int]`\n\nSee `a.b` and `C`."
    )


def test_sections_examples_and_members_become_lists_and_fences():
    class Thing(ValueError):
        """A thing.

        >>> Thing()
        Thing

        Attributes
        ----------
        size : int
            In bytes,
            at most 7.
        name : str
        """

        @property
        def half(self) -> float:
            return 0.5

        def grow(self, by: int) -> None:
            """Larger."""

        def _hidden(self) -> None: ...

    assert reference.entry(Thing) == (
        "### Thing\n\nDerived from `ValueError`.\n\nA thing.\n\n```pycon\n>>> Thing()\nThing\n```"
        "\n\n**Attributes**\n\n- `size` (int)\\\n  In bytes,\n  at most 7.\n- `name` (str)\n\n"
        "- `half: float`\n\n- `grow(by: int) -> None`\n\n  Larger."
    )
