"""Commands that install our packages are those that work."""

from __future__ import annotations

import pytest

from virtualgpu import installing


@pytest.mark.parametrize(
    ("package", "needed"),
    [
        ("virtualgpu", ["virtualgpu"]),
        ("virtualgpu[tile]", ["virtualgpu[tile]"]),
        ("virtualgpu[numba-cuda]", ["virtualgpu[numba-cuda]"]),
        ("virtualgpu[cudf]", ["virtualgpu", "gpustandins[cudf]"]),
        ("gpustandins", ["virtualgpu", "gpustandins"]),
        ("gpucourse", ["gpucourse"]),
    ],
)
def test_pip_is_given_what_the_index_lacks(
    monkeypatch: pytest.MonkeyPatch, package: str, needed: list[str]
) -> None:
    given = installing.requirements(package)
    assert [one.partition(" @ git+https://")[0] for one in given] == needed
    monkeypatch.setattr(installing, "ON_THE_INDEX", True)
    assert installing.pip_install(package) == f'pip install "{package}"'
