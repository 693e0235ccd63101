"""Conversion of LTO-IR to PTX with nvJitLink, NVIDIA's run-time linker.

LTO-IR is the output of NVRTC and NVVM for link-time optimisation. nvJitLink compiles it to machine
code or, with ``-lto -ptx``, to PTX, for which it needs neither a driver nor a GPU (nvJitLink's
documentation, "Basic Usage"; the wheel ``nvidia-nvjitlink``). A call of a function that none of
the parts defines remains a call. A device function that no kernel calls is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtualgpu.errors import LinkError

#: Options that produce PTX; the options of the link follow them.
_OPTIONS = ("-lto", "-ptx", "-lineinfo")


def link_to_ptx(parts: Sequence[bytes], options: Sequence[str] = ("-arch=sm_90",)) -> str:
    """Link LTO-IR ``parts`` that call each other, and return their PTX.

    ``options`` are nvJitLink's and must include ``-arch=sm_…``. Raises LinkError with nvJitLink's
    message, or if nvJitLink is not installed.
    """
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except Exception as missing:  # no library, or one that is too old for the bindings
        raise LinkError(
            "nvJitLink, which converts LTO-IR to PTX, is not installed "
            f"({type(missing).__name__}): pip install nvidia-nvjitlink"
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
    """Return the error log of a link, or an empty string."""
    try:
        raw = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, raw)
    except nvjitlink.nvJitLinkError:
        return ""
    return raw.rstrip(b"\0 \n").decode(errors="replace")
