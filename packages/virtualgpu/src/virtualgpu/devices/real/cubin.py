"""Linking of PTX to a real GPU's machine code, without a GPU or a driver.

A driver reads PTX only up to its own version and refuses PTX of a newer toolkit, but it loads
machine code of any toolkit of its major version (CUDA's "minor version compatibility"). So PTX is
always linked first: with nvJitLink, as numba-cuda does, or with the toolkit's ``ptxas`` and
``nvlink`` if nvJitLink is missing or older than the PTX.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from virtualgpu.compilers.nvjitlink import said
from virtualgpu.errors import LinkError

_VERSION = re.compile(r"^\.version (\d+)\.(\d+)", re.MULTILINE)
_TARGET = re.compile(r"^\.target (sm_\d+[af]?)", re.MULTILINE)
# These functions are declared but not defined; the device runtime library defines them.
_RUNTIME = re.compile(r"\bcuda(CG|Get|Stream|Event|Malloc|Free|Memcpy|Memset|Launch|Device)\w*")
_TIMEOUT = 120.0  # seconds; the course's largest kernel takes one second


@lru_cache(maxsize=512)
def link(texts: tuple[str, ...], architecture: str = "sm_90", *, contract: bool = True) -> bytes:
    """Return the machine code (a cubin) of PTX texts that are linked together.

    Parameters
    ----------
    texts : tuple of str
    architecture : str
        Architecture of the GPU that will run the code, such as ``sm_90``.
    contract : bool
        Allow the assembler to fuse a multiplication and an addition to one ``fma`` if PTX permits
        it (the default of every tool). If false, each rounds as PTX says.

    Raises
    ------
    LinkError
        The linker failed; the message is the linker's.
    """
    refusals = []
    architecture = _specific(texts, architecture)
    for linker in (_nvjitlink, _ptxas):
        try:
            return linker(texts, architecture, contract)
        except _Unfit as unfit:
            refusals.append(str(unfit))
    raise LinkError("PTX cannot be linked here: " + "; ".join(refusals))


def contracts(texts: tuple[str, ...], architecture: str = "sm_90") -> bool:
    """Return True if the assembler fuses any multiplication and addition of these texts.

    The GPU then rounds once where the PTX, taken literally, rounds twice.
    """
    return machine_code(link(texts, architecture)) != machine_code(
        link(texts, architecture, contract=False)
    )


def machine_code(code: bytes) -> dict[str, bytes]:
    """Return the instructions in a cubin by section: ``.text.`` and the kernel's name.

    A cubin is a 64-bit ELF file. Besides the code it records the options with which it was made.
    """
    (table,) = struct.unpack_from("<Q", code, 0x28)
    size, count, names = struct.unpack_from("<HHH", code, 0x3A)
    # name, type, flags, address, offset, size of each section
    headers = [
        struct.unpack_from("<IIQQQQ", code, table + number * size) for number in range(count)
    ]
    start = headers[names][4]
    found = {}
    for place, _, _, _, offset, length in headers:
        name = code[start + place : code.index(b"\0", start + place)].decode()
        if name.startswith(".text"):
            found[name] = code[offset : offset + length]
    return found


def _specific(texts: Sequence[str], architecture: str) -> str:
    """Return ``sm_90a`` for PTX that needs it (numba-cuda's on Hopper), else ``architecture``.

    Code for an architecture with a suffix runs only on that architecture (CUDA C++ Programming
    Guide, "Architecture-specific features"), which is the requested one here.
    """
    targets = {match[1] for text in texts if (match := _TARGET.search(text))}
    return next(
        (
            name
            for name in sorted(targets)
            if name.rstrip("af") == architecture and name != architecture
        ),
        architecture,
    )


class _Unfit(Exception):
    """Refusal by one linker. Another linker may be able to link the kernel."""


def ptx_version(texts: Sequence[str]) -> tuple[int, int]:
    """Return the newest PTX version that any of the modules declares, for example ``(9, 0)``."""
    found = [
        (int(match[1]), int(match[2]))
        for text in texts
        for match in [_VERSION.search(text)]
        if match
    ]
    return max(found, default=(0, 0))


def toolkit_of(version: tuple[int, int]) -> tuple[int, int]:
    """Return the version of the CUDA toolkit that introduced a PTX version.

    PTX 9.0 is from CUDA 13.0 and 8.8 from 12.9. PTX ISA, "Release Notes", for CUDA 12 and 13: 8.0
    to 8.5 came with 12.0 to 12.5, 8.5 stayed in 12.6, 8.6 to 8.8 came with 12.7 to 12.9, and 9.n
    comes with 13.n.
    """
    major, minor = version
    return (major + 4, minor) if major >= 9 else (12, minor + (minor > 5))


def _nvjitlink(texts: tuple[str, ...], architecture: str, contract: bool) -> bytes:
    try:
        from cuda.bindings import nvjitlink

        have = tuple(nvjitlink.version())
    except Exception as missing:  # no library, or one too old for the bindings
        raise _Unfit(f"nvJitLink is missing ({type(missing).__name__})") from None
    if have < toolkit_of(ptx_version(texts)):
        raise _Unfit(f"nvJitLink {have[0]}.{have[1]} is older than the PTX")
    # nvJitLink's own -fma option is for LTO-IR; it assembles PTX with a built-in ptxas.
    options = [f"-arch={architecture}", "-lineinfo", f"-Xptxas=--fmad={str(contract).lower()}"]
    handle = nvjitlink.create(len(options), options)
    try:
        for number, text in enumerate(texts):
            raw = text.encode()
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, raw, len(raw), f"{number}.ptx")
        if library := _runtime_library(texts):
            nvjitlink.add_file(handle, nvjitlink.InputType.LIBRARY, str(library))
        nvjitlink.complete(handle)
        code = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, code)
        return bytes(code)
    except nvjitlink.nvJitLinkError as error:
        raise LinkError(f"nvJitLink: {error}\n{said(nvjitlink, handle)}".strip()) from None
    finally:
        nvjitlink.destroy(handle)


def _ptxas(texts: tuple[str, ...], architecture: str, contract: bool) -> bytes:
    with tempfile.TemporaryDirectory(prefix="gpucourse-link-") as name:
        folder = Path(name)
        library = _runtime_library(texts)
        alone = len(texts) == 1 and library is None
        parts = []
        for number, text in enumerate(texts):
            source, part = folder / f"{number}.ptx", folder / f"{number}.cubin"
            source.write_text(text)
            _run(
                "ptxas",
                f"-arch={architecture}",
                "-lineinfo",
                f"--fmad={str(contract).lower()}",
                *([] if alone else ["-c"]),
                source,
                "-o",
                part,
            )
            parts.append(part)
        if not alone:
            whole = folder / "linked.cubin"
            _run(
                "nvlink",
                f"-arch={architecture}",
                *parts,
                *([library] if library else []),
                "-o",
                whole,
            )
            parts = [whole]
        return parts[0].read_bytes()


def _run(program: str, *arguments: object) -> None:
    path = _tool(program)
    if path is None:
        raise _Unfit(f"{program} is missing")
    done = subprocess.run(
        [path, *map(str, arguments)], capture_output=True, text=True, timeout=_TIMEOUT
    )
    if done.returncode:
        said = f"{done.stdout}{done.stderr}".strip()
        if "Unsupported .version" in said:
            raise _Unfit(f"{program} is older than the PTX")
        raise LinkError(f"{program}: {said}")


def _tool(program: str) -> str | None:
    """Return the path of a toolkit program in a wheel, ``CUDA_HOME`` or the search path."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return shutil.which(program)
    try:
        return find_nvidia_binary_utility(program) or shutil.which(program)
    except Exception:  # a pathfinder raises an error for a program that it does not know
        return shutil.which(program)


def _runtime_library(texts: Sequence[str]) -> Path | None:
    """Find ``libcudadevrt.a`` if the PTX calls the device runtime, as ``grid.sync()`` does."""
    if not any(".extern .func" in text and _RUNTIME.search(text) for text in texts):
        return None
    found = None
    try:
        from cuda.pathfinder import find_static_lib

        found = find_static_lib("cudadevrt")
    except Exception:
        import cuda

        for package in cuda.__path__:
            found = next(Path(package).parent.glob("nvidia/**/libcudadevrt.a"), found)
    if not found:
        raise _Unfit("the kernel calls the device runtime, but libcudadevrt.a is missing")
    return Path(found)
