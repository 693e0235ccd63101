"""Commands that install our packages: by their address, until the package index has the names."""

from __future__ import annotations

#: On the day of the release this becomes True, and `make build` changes READMEs and pages.
ON_THE_INDEX = False
REPOSITORY = "https://github.com/gpu-course/gpu-course"
#: What of ours a package needs before it, which pip would look for by name. gpucourse takes its own
#: from where it lies itself (hatch_build.py).
_NEEDS = {"gpustandins": ("virtualgpu",)}
#: Extras of virtualgpu that stand-ins are made of, and the extra of theirs.
_STANDINS = {"cupy": "", "pycuda": "", "cudf": "[cudf]", "scipy": "[scipy]"}


def pip_install(package: str) -> str:
    """Return the command for a package of ours, with or without an extra: ``virtualgpu[tile]``."""
    return "pip install " + " ".join(f'"{one}"' for one in requirements(package))


def requirements(package: str) -> list[str]:
    """Return pip's requirements for ``package``, each after those that it needs."""
    if ON_THE_INDEX:
        return [package]
    name, _, extra = package.rstrip("]").partition("[")
    if name == "virtualgpu" and extra in _STANDINS:
        return [*requirements("virtualgpu"), _at_its_address(f"gpustandins{_STANDINS[extra]}")]
    return [_at_its_address(one) for one in (*_NEEDS.get(name, ()), package)]


def _at_its_address(package: str) -> str:
    folder = package.partition("[")[0]
    return f"{package} @ git+{REPOSITORY}#subdirectory=packages/{folder}"
