"""Allocations that another process of this machine opens (CUDA Driver API, "cuIpcGetMemHandle").

When a handle of an allocation is requested, its pages are replaced in place by those of a memory
file, so views of them stay valid. The handle names the process that has the file open, and another
process of the same user can open the file there. This works on Linux only. Nothing is left behind
when the processes end.
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
# Contents of a handle: a mark, the process, its file, the file's inode (because process and file
# numbers may be reused), the allocation's first byte in the first page, and its bytes.
_FIELDS = struct.Struct("<8sQQQQQ")
_MARK = b"vgpu ipc"


def handle(memory: GlobalMemory, address: int) -> bytes:
    """Return a handle (64 bytes) of the live allocation at ``address``, the same each time.

    Raises VirtualGPUError if none starts there, or if this system has no memory files.
    """
    start, end = memory.extent(address) or (0, 0)
    if start != address or start == end:
        raise VirtualGPUError(f"a handle of {address:#x}: no live allocation starts there")
    if not hasattr(os, "memfd_create"):
        raise VirtualGPUError("memory can be shared with other processes (CUDA IPC) only on Linux")
    memory.host_view(start, end - start)  # other processes may write it without notice
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

    Opening it twice gives the same address.

    Raises VirtualGPUError for a handle of this process, and if the allocation no longer exists.
    """
    mark, process, number, inode, in_page, nbytes = _FIELDS.unpack_from(handle)
    if mark != _MARK or not nbytes or in_page >= PAGE:
        raise VirtualGPUError("not a handle from cuIpcGetMemHandle on a virtual GPU")
    if process == os.getpid():
        raise VirtualGPUError("the handle is from this process: use the array itself")
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
    """Undo one :func:`open_handle`; the last call makes the bytes inaccessible here.

    Raises VirtualGPUError if no handle was opened at ``address``.
    """
    handle = next((key for key, (there, _) in memory.opened.items() if there == address), None)
    if handle is None:
        raise VirtualGPUError(f"no handle of another process's memory was opened at {address:#x}")
    users = memory.opened.pop(handle)[1] - 1
    if users:
        memory.opened[handle] = address, users
    else:
        memory.free(address)
