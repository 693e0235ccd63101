"""LTO-IR to PTX by nvJitLink, NVIDIA's run-time linker.

LTO-IR is what NVRTC and NVVM write for optimisation at link time. nvJitLink makes machine code of
it, or, by ``-lto -ptx``, PTX, for which it needs neither a driver nor a GPU (nvJitLink's
documentation, "Basic Usage"; the wheel ``nvidia-nvjitlink``). A call of a function that is in none
of the parts stays a call; a device function that no kernel of the parts calls is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtualgpu.errors import LinkError

#: What PTX is made of here; the link's own options come behind.
_OPTIONS = ("-lto", "-ptx", "-lineinfo")


def link_to_ptx(parts: Sequence[bytes], options: Sequence[str] = ("-arch=sm_90",)) -> str:
    """Link LTO-IR ``parts`` that call each other and return their PTX.

    ``options`` are nvJitLink's; ``-arch=sm_…`` must be among them. Raises LinkError with what
    nvJitLink says, or where it is not installed.
    """
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except Exception as missing:  # no library, or one too old for the bindings
        raise LinkError(
            f"LTO-IR becomes PTX by nvJitLink, which is not there ({type(missing).__name__}): "
            "pip install nvidia-nvjitlink"
        ) from None
    flags = list(dict.fromkeys([*options, *_OPTIONS]))
    handle = nvjitlink.create(len(flags), flags)
    try:
        for number, raw in enumerate(parts):
            nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, raw, len(raw), f"{number}.ltoir")
        nvjitlink.complete(handle)
        ptx = bytearray(nvjitlink.get_linked_ptx_size(handle))
        nvjitlink.get_linked_ptx(handle, ptx)
        return ptx.rstrip(b"\0 \n").decode()
    except nvjitlink.nvJitLinkError as error:
        raise LinkError(f"nvJitLink: {error}\n{said(nvjitlink, handle)}".strip()) from None
    finally:
        nvjitlink.destroy(handle)


def said(nvjitlink, handle: int) -> str:
    """Return the error log of a link; empty where there is none."""
    try:
        raw = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, raw)
    except nvjitlink.nvJitLinkError:
        return ""
    return raw.rstrip(b"\0 \n").decode(errors="replace")
