"""Install commands for this project's packages, from the repository until they are on PyPI."""

from __future__ import annotations

#: Set this to True on the day of the release; `make build` then changes READMEs and pages.
ON_THE_INDEX = False
REPOSITORY = "https://github.com/gpu-course/gpu-course"
#: Our packages that a package needs and that pip would look for on PyPI, so they are installed
#: first. gpucourse takes its own from the source tree that it is in (hatch_build.py).
_NEEDS = {"gpustandins": ("virtualgpu",)}
#: virtualgpu's extras that install stand-ins, each with the matching extra of gpustandins.
_STANDINS = {"cupy": "", "pycuda": "", "cudf": "[cudf]", "scipy": "[scipy]"}


def pip_install(package: str) -> str:
    """Return the install command for one of our packages, such as ``virtualgpu[tile]``."""
    return "pip install " + " ".join(f'"{one}"' for one in requirements(package))


def requirements(package: str) -> list[str]:
    """Return pip's requirements for ``package``, dependencies first."""
    if ON_THE_INDEX:
        return [package]
    name, _, extra = package.rstrip("]").partition("[")
    if name == "virtualgpu" and extra in _STANDINS:
        return [*requirements("virtualgpu"), _at_its_address(f"gpustandins{_STANDINS[extra]}")]
    return [_at_its_address(one) for one in (*_NEEDS.get(name, ()), package)]


def _at_its_address(package: str) -> str:
    folder = package.partition("[")[0]
    return f"{package} @ git+{REPOSITORY}#subdirectory=packages/{folder}"
