"""Landlock: restriction of a process to a list of files that it may open.

It needs Linux 5.13 or later; see landlock(7). Unlike namespaces, it needs no rights and works in
any container that does not block it. A restricted process also cannot read the memory or files of
other processes through /proc.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

# System call numbers, which are the same on every architecture.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION, PATH_BENEATH = 1, 1
# Access rights that Landlock controls, by interface version (linux/landlock.h): execute, write
# file, read file, read folder; remove and create entries of seven kinds; rename, truncate, ioctl.
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1, 2, 4, 8
ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
# Rights that a rule for a file may grant.
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15
# From version 4 on, Landlock also restricts TCP; from version 6 on, signals to processes outside
# the restriction and abstract Unix sockets.
NETWORK, SCOPES = 3, 3
PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def version() -> int:
    """Return the kernel's Landlock interface version; 0 if it has none."""
    if _libc is None:
        return 0
    return max(0, int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)))


def only_these_files(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Restrict this process permanently to files below these paths; return True on success."""
    known = version()
    if not known or _libc is None:
        return False
    everything = ALL[min(known, max(ALL))]
    ruled = struct.pack("<Q", everything)
    if known >= 4:
        ruled += struct.pack("<Q", NETWORK)
    if known >= 6:
        ruled += struct.pack("<Q", SCOPES)
    rules = _libc.syscall(CREATE_RULESET, ruled, ctypes.c_size_t(len(ruled)), 0)
    if rules < 0:
        return False
    try:
        read = EXECUTE | READ_FILE | READ_FOLDER
        allowed = dict.fromkeys(readable, read) | dict.fromkeys(writable, everything)
        return bool(
            all(_allow(rules, path, access) for path, access in allowed.items())
            and _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            and _libc.syscall(RESTRICT_SELF, rules, 0) == 0
        )
    finally:
        os.close(rules)


def _allow(rules: int, path: str, access: int) -> bool:
    """Add a rule and return True on success; a missing path needs no rule."""
    assert _libc is not None
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        rule = struct.pack("<Qi", access if os.path.isdir(path) else access & OF_FILES, place)
        return bool(_libc.syscall(ADD_RULE, rules, PATH_BENEATH, rule, 0) == 0)
    finally:
        os.close(place)
