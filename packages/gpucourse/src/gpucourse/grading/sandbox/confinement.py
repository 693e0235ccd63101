"""Confinement of a worker process, one function for each kind of right.

The process confines itself after the fork and before it reads the first cell. This needs Linux.
Each function returns False if the kernel or the machine refuses, so that the caller can record the
isolation level that was reached.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import struct
import sys
from pathlib import Path

# linux/sched.h
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
CLONE_THREAD, CLONE_VFORK = 0x00010000, 0x00004000
# sys/mount.h
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MOUNT_ATTR_RDONLY, AT_RECURSIVE, AT_FDCWD, SYS_MOUNT_SETATTR = 1, 0x8000, -100, 442
# sys/prctl.h
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SECCOMP_MODE_FILTER = 2

PROCESSORS = "/proc/cpuinfo"

# capget(2): version 3 of the header, and the number of three-word sets that it expects.
CAPABILITIES, CAPABILITY_SETS = 0x20080522, 2

# Audit architecture and numbers of the system calls that a worker is refused: those that create
# processes, inspect other processes, open sockets or mount file systems; kernel facilities that no
# solution needs; memory that the address-space limit does not count (System V, in-memory files,
# message queues, watches, rings); and lower scheduling priorities, because a process that never
# gets a processor is charged almost no time (gpucourse.grading.oracle.clocks). Little uncounted
# memory remains: 256 open files, where a pipe holds 64 kB, and a home folder of limited size. A
# list of allowed calls would differ with every release of the C library, OpenBLAS and XLA, and a
# call missing from it would fail an honest answer. Sources: arch/x86/entry/syscalls/syscall_64.tbl
# and include/uapi/asm-generic/unistd.h.
REFUSED = {
    "x86_64": (
        0xC000003E,
        {
            "fork": 57,
            "vfork": 58,
            "execve": 59,
            "execveat": 322,
            "ptrace": 101,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "pidfd_open": 434,
            "pidfd_getfd": 438,
            "socket": 41,
            "connect": 42,
            "bind": 49,
            "listen": 50,
            "accept": 43,
            "accept4": 288,
            "mount": 165,
            "umount2": 166,
            "pivot_root": 155,
            "chroot": 161,
            "unshare": 272,
            "setns": 308,
            "open_tree": 428,
            "move_mount": 429,
            "fsopen": 430,
            "fsconfig": 431,
            "fsmount": 432,
            "fspick": 433,
            "mount_setattr": 442,
            "shmget": 29,
            "shmat": 30,
            "shmctl": 31,
            "shmdt": 67,
            "semget": 64,
            "semop": 65,
            "semctl": 66,
            "semtimedop": 220,
            "msgget": 68,
            "msgsnd": 69,
            "msgrcv": 70,
            "msgctl": 71,
            "mq_open": 240,
            "memfd_create": 319,
            "memfd_secret": 447,
            "socketpair": 53,
            "inotify_init": 253,
            "inotify_init1": 294,
            "inotify_add_watch": 254,
            "fanotify_init": 300,
            "io_setup": 206,
            "bpf": 321,
            "perf_event_open": 298,
            "userfaultfd": 323,
            "keyctl": 250,
            "add_key": 248,
            "request_key": 249,
            "io_uring_setup": 425,
            "kexec_load": 246,
            "init_module": 175,
            "finit_module": 313,
            "tkill": 200,
            "rt_sigqueueinfo": 129,
            "rt_tgsigqueueinfo": 297,
            "pidfd_send_signal": 424,
            "setpriority": 141,
            "sched_setparam": 142,
            "sched_setscheduler": 144,
            "sched_setattr": 314,
            "ioprio_set": 251,
        },
        {
            "clone": 56,
            "clone3": 435,
            "kill": 62,
            "tgkill": 234,
            "prlimit64": 302,
            "fcntl": 72,
            "ioctl": 16,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "execve": 221,
            "execveat": 281,
            "ptrace": 117,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "pidfd_open": 434,
            "pidfd_getfd": 438,
            "socket": 198,
            "connect": 203,
            "bind": 200,
            "listen": 201,
            "accept": 202,
            "accept4": 242,
            "mount": 40,
            "umount2": 39,
            "pivot_root": 41,
            "chroot": 51,
            "unshare": 97,
            "setns": 268,
            "open_tree": 428,
            "move_mount": 429,
            "fsopen": 430,
            "fsconfig": 431,
            "fsmount": 432,
            "fspick": 433,
            "mount_setattr": 442,
            "shmget": 194,
            "shmat": 196,
            "shmctl": 195,
            "shmdt": 197,
            "semget": 190,
            "semop": 193,
            "semctl": 191,
            "semtimedop": 192,
            "msgget": 186,
            "msgsnd": 189,
            "msgrcv": 188,
            "msgctl": 187,
            "mq_open": 180,
            "memfd_create": 279,
            "memfd_secret": 447,
            "socketpair": 199,
            "inotify_init1": 26,
            "inotify_add_watch": 27,
            "fanotify_init": 262,
            "io_setup": 0,
            "bpf": 280,
            "perf_event_open": 241,
            "userfaultfd": 282,
            "keyctl": 219,
            "add_key": 217,
            "request_key": 218,
            "io_uring_setup": 425,
            "kexec_load": 104,
            "init_module": 105,
            "finit_module": 273,
            "tkill": 130,
            "rt_sigqueueinfo": 138,
            "rt_tgsigqueueinfo": 240,
            "pidfd_send_signal": 424,
            "setpriority": 140,
            "sched_setparam": 118,
            "sched_setscheduler": 119,
            "sched_setattr": 274,
            "ioprio_set": 30,
        },
        {
            "clone": 220,
            "clone3": 435,
            "kill": 129,
            "tgkill": 131,
            "prlimit64": 261,
            "fcntl": 25,
            "ioctl": 29,
        },
    ),
}
EPERM, ENOSYS = 1, 38

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


# System calls that affect other processes, or change files without opening them, which Landlock
# does not cover. An oracle is refused these as well.
OF_OTHERS = {
    "x86_64": {
        "sched_setaffinity": 203,
        "setpriority": 141,
        "sched_setparam": 142,
        "sched_setscheduler": 144,
        "sched_setattr": 314,
        "ioprio_set": 251,
        "migrate_pages": 256,
        "move_pages": 279,
        "process_madvise": 440,
        "process_mrelease": 448,
        "truncate": 76,
        "chmod": 90,
        "fchmod": 91,
        "fchmodat": 268,
        "fchmodat2": 452,
        "chown": 92,
        "fchown": 93,
        "lchown": 94,
        "fchownat": 260,
        "setxattr": 188,
        "lsetxattr": 189,
        "fsetxattr": 190,
        "removexattr": 197,
        "lremovexattr": 198,
        "fremovexattr": 199,
        "setxattrat": 463,
        "removexattrat": 466,
        "utime": 132,
        "utimes": 235,
        "futimesat": 261,
        "utimensat": 280,
    },
    "aarch64": {
        "sched_setaffinity": 122,
        "setpriority": 140,
        "sched_setparam": 118,
        "sched_setscheduler": 119,
        "sched_setattr": 274,
        "ioprio_set": 30,
        "migrate_pages": 238,
        "move_pages": 239,
        "process_madvise": 440,
        "process_mrelease": 448,
        "truncate": 45,
        "fchmod": 52,
        "fchmodat": 53,
        "fchmodat2": 452,
        "fchown": 55,
        "fchownat": 54,
        "setxattr": 5,
        "lsetxattr": 6,
        "fsetxattr": 7,
        "removexattr": 14,
        "lremovexattr": 15,
        "fremovexattr": 16,
        "setxattrat": 463,
        "removexattrat": 466,
        "utimensat": 88,
    },
}
# Commands that set the receiver of a signal for available data (fcntl(2), F_SETOWN and related;
# socket(7)), which is another way to signal any process of the same user.
OWNERS = {"fcntl": (8, 10, 15), "ioctl": (0x8901, 0x8902)}
NOBODY = 65534
PAGE = 4096


def own_namespaces(home: str, home_bytes: int, covered: list[str], processes: bool = True) -> bool:
    """Enter private namespaces: network, process table, mounts and temporary folder.

    The new process table applies to processes forked after this call. All mounted file systems
    become read-only, `home` becomes an empty file system of `home_bytes`, and the paths in
    `covered` become empty. /proc is empty too, except for the description of one processor,
    because XLA computes nothing large if it cannot read it. With `processes` False, the process
    table and /proc remain the machine's.
    """
    if _libc is None:
        return False
    processor = one_processor()
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    if processes:
        flags |= CLONE_NEWPID
    if _libc.unshare(flags) != 0:
        return False
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError:
        return False
    safe = MS_NOSUID | MS_NODEV | MS_NOEXEC
    # An empty file also takes kernel memory, so allow only as many files as there are pages.
    room = f"size={home_bytes},nr_inodes={home_bytes // PAGE}"
    return (
        _libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
        and _read_only()
        and all(_cover(path) for path in covered)
        and _libc.mount(b"tmpfs", os.fsencode(home), b"tmpfs", safe, room.encode()) == 0
        and (
            not processes
            or (
                _libc.mount(b"tmpfs", b"/proc", b"tmpfs", safe, b"size=16384,mode=555") == 0
                and _put(PROCESSORS, processor)
            )
        )
    )


def one_processor() -> str:
    """Return the system's description of its first processor.

    It is no secret, because any program can query the processor itself.
    """
    with contextlib.suppress(OSError), open(PROCESSORS, encoding="utf-8") as file:
        return file.read().split("\n\n")[0] + "\n\n"
    return ""


def _put(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return False
    return True


def _cover(path: str) -> bool:
    """Hide a folder behind an empty one, or a file behind /dev/null."""
    assert _libc is not None
    target = os.fsencode(path)
    if os.path.isdir(path):
        safe = MS_NOSUID | MS_NODEV | MS_NOEXEC
        return bool(_libc.mount(b"tmpfs", target, b"tmpfs", safe, b"size=4096,mode=555") == 0)
    return not os.path.exists(path) or bool(
        _libc.mount(b"/dev/null", target, None, MS_BIND, None) == 0
    )


def _read_only() -> bool:
    """Make every mounted file system read-only (mount_setattr, Linux 5.12)."""
    assert _libc is not None
    attributes = struct.pack("<QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return bool(
        _libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, buffer, len(attributes)) == 0
    )


def mapped_bytes() -> int:
    """Return the size of this process's address space in bytes; 0 if it is unknown."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def bound_resources(memory: int | None, file: int, cpu: int, threads: int) -> None:
    """Limit the address space (if given), file sizes, CPU time and threads."""
    for what, amount in (
        *([] if memory is None else [(resource.RLIMIT_AS, memory)]),
        (resource.RLIMIT_FSIZE, file),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_NPROC, threads),
    ):
        hard = resource.getrlimit(what)[1]
        amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (amount, amount))


def drop_capabilities() -> bool:
    """Drop the capabilities, such as mounting, that a namespace's owner has in it."""
    if _libc is None:
        return False
    header = struct.pack("<Ii", CAPABILITIES, 0)
    return bool(_libc.capset(header, bytes(12 * CAPABILITY_SETS)) == 0)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)


def become_nobody(readable: list[str]) -> bool:
    """Switch to a user who owns nothing, if this is root and all users may read `readable`."""
    if _libc is None or os.getuid() != 0 or not all(map(open_to_all, readable)):
        return False
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:
        return False
    # Otherwise root would own /proc/self, which own_namespaces must write to.
    return bool(_libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0)


def open_to_all(path: str) -> bool:
    """Return True if the modes of a path and its parent folders let any user read it."""
    try:
        mode = os.stat(path).st_mode
        above = Path(path).resolve().parents
        return bool(mode & 0o004) and all(folder.stat().st_mode & 0o001 for folder in above)
    except FileNotFoundError:
        return True


def refuse_system_calls(others: bool = False, allowed: tuple[str, ...] = ()) -> bool:
    """Install a seccomp filter; return True on success.

    The filter refuses new processes and programs, sockets, memory that no limit counts, and
    signals to or inspection of other processes.

    With `others`, it also refuses the calls in OF_OTHERS; names in `allowed` are never refused.
    Threads may still be started, but not with CLONE_VFORK, where the starting thread waits,
    because nothing could end that wait. A process may send signals to itself. The filter is
    permanent and needs no rights to install, so it works on every Linux.
    """
    machine = platform.machine()
    if _libc is None or machine not in REFUSED:
        return False
    architecture, refused, special = REFUSED[machine]
    if others:
        refused = refused | OF_OTHERS[machine]
    numbers = sorted(number for name, number in refused.items() if name not in allowed)
    program = _filter(architecture, numbers, special, os.getpid())
    buffer = ctypes.create_string_buffer(program)

    class SockFprog(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    code = SockFprog(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p).value)
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(code), 0, 0) == 0)


def _filter(architecture: int, refused: list[int], special: dict[str, int], pid: int) -> bytes:
    """Return classic BPF over seccomp_data (nr at 0, arch at 4, args[0] at 16, args[1] at 24)."""
    load, jump_equal, jump_set, jump_ge, answer = 0x20, 0x15, 0x45, 0x35, 0x06
    allow, kill, refuse = 0x7FFF0000, 0x80000000, 0x00050000

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("<HBBI", code, if_true, if_false, value)

    steps = [
        step(load, 4),
        step(jump_equal, architecture, 1, 0),
        step(answer, kill),
        step(load, 0),
    ]
    # The x32 numbers of x86-64 are a second way to make the same calls.
    if architecture == REFUSED["x86_64"][0]:
        steps += [step(jump_ge, 0x40000000, 0, 1), step(answer, kill)]
    # If clone3, whose flags a filter cannot read, is refused, glibc falls back to clone.
    steps += [step(jump_equal, special["clone3"], 0, 1), step(answer, refuse | ENOSYS)]
    for number in refused:
        steps += [step(jump_equal, number, 0, 1), step(answer, refuse | EPERM)]
    for number in (special["kill"], special["tgkill"]):
        steps += [
            step(jump_equal, number, 0, 4),
            step(load, 16),
            step(jump_equal, pid, 0, 1),
            step(answer, allow),
            step(answer, refuse | EPERM),
        ]
    # A process may also set its own limits; 0 refers to the process itself.
    steps += [
        step(jump_equal, special["prlimit64"], 0, 5),
        step(load, 16),
        step(jump_equal, 0, 1, 0),
        step(jump_equal, pid, 0, 1),
        step(answer, allow),
        step(answer, refuse | EPERM),
    ]
    for name, commands in OWNERS.items():
        count = len(commands)
        steps += [
            step(jump_equal, special[name], 0, count + 3),
            step(load, 24),
            *(step(jump_equal, command, count - at, 0) for at, command in enumerate(commands)),
            step(answer, allow),
            step(answer, refuse | EPERM),
        ]
    steps += [
        step(jump_equal, special["clone"], 0, 4),
        step(load, 16),
        step(jump_set, CLONE_VFORK, 1, 0),
        step(jump_set, CLONE_THREAD, 1, 0),
        step(answer, refuse | EPERM),
        step(answer, allow),
    ]
    return b"".join(steps)
