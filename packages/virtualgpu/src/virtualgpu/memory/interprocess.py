"""Allocations that another process of this machine opens (CUDA Driver API, "cuIpcGetMemHandle").

The pages of an allocation that a handle is asked for become those of a file in memory, where they
are: views of them stay valid. The handle says which process has the file open; one of the same user
may open it there. Linux only. Nothing is left behind when the processes end.
"""

from __future__ import annotations

import mmap
import os
import struct

from virtualgpu.errors import VirtualGPUError
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.memory.mapping import BASE, PAGE
from virtualgpu.wording import many

HANDLE_BYTES = 64  # CU_IPC_HANDLE_SIZE
# What a handle says: a mark, the process, its file, the file's inode (another process may have the
# numbers later), the allocation's first byte in the first page, and its bytes.
_FIELDS = struct.Struct("<8sQQQQQ")
_MARK = b"vgpu ipc"


def handle(memory: GlobalMemory, address: int) -> bytes:
    """Return a handle (64 bytes) of the live allocation at ``address``, the same each time.

    Raises VirtualGPUError where none starts there, or this system has no files in memory.
    """
    start, end = memory.extent(address) or (0, 0)
    if start != address or start == end:
        raise VirtualGPUError(f"a handle of {address:#x}, where no live allocation starts")
    if not hasattr(os, "memfd_create"):
        raise VirtualGPUError("memory is shared with other processes (CUDA IPC) on Linux only")
    memory.host_view(start, end - start)  # others may write it untold
    pages = memory.mapping.pages(start, end)
    if start not in memory.shown:
        file = os.memfd_create("virtualgpu", os.MFD_CLOEXEC)
        try:
            os.ftruncate(file, pages.stop - pages.start)
            with mmap.mmap(file, 0) as there:
                there[:] = memory.mapping.raw[pages].data
            memory.mapping.show(pages, file)
        except BaseException:
            os.close(file)
            raise
        memory.shown[start] = file
    file = memory.shown[start]
    return _FIELDS.pack(
        _MARK, os.getpid(), file, os.fstat(file).st_ino, start - BASE - pages.start, end - start
    ).ljust(HANDLE_BYTES, b"\0")


def open_handle(memory: GlobalMemory, handle: bytes) -> int:
    """Open another process's allocation and return its address.

    Opened twice, it is at one address.

    Raises VirtualGPUError for a handle of this process, and where the allocation is gone.
    """
    mark, process, number, inode, in_page, nbytes = _FIELDS.unpack_from(handle)
    if mark != _MARK or not nbytes or in_page >= PAGE:
        raise VirtualGPUError("no handle of memory that cuIpcGetMemHandle made on a virtual GPU")
    if process == os.getpid():
        raise VirtualGPUError("this process made the handle: use the array itself")
    if handle in memory.opened:
        address, users = memory.opened[handle]
        memory.opened[handle] = address, users + 1
        return address
    gone = VirtualGPUError(
        f"process {process} has ended, or has freed the array of {many(nbytes, 'byte')} that it "
        "shared"
    )
    try:
        file = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        raise gone from None
    try:
        found, span = os.fstat(file), -(-(in_page + nbytes) // PAGE) * PAGE
        if found.st_ino != inode or found.st_size != span:
            raise gone
        address = memory.allocate(nbytes, poison=False, in_page=in_page)
        memory.mapping.show(memory.mapping.pages(address, address + nbytes), file)
    except BaseException:
        os.close(file)
        raise
    memory.shown[address] = file
    memory.host_view(address, nbytes)
    memory.opened[handle] = address, 1
    return address


def close_handle(memory: GlobalMemory, address: int) -> None:
    """Take back one :func:`open_handle`; the last makes the bytes unreachable here.

    Raises VirtualGPUError where no handle was opened at ``address``.
    """
    handle = next((key for key, (there, _) in memory.opened.items() if there == address), None)
    if handle is None:
        raise VirtualGPUError(f"no handle of another process's memory was opened at {address:#x}")
    users = memory.opened.pop(handle)[1] - 1
    if users:
        memory.opened[handle] = address, users
    else:
        memory.free(address)
