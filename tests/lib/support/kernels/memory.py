"""Arrays between guard pages, and children that may fault."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import traceback
from collections.abc import Callable

import numpy as np


def guarded(array: np.ndarray, at_end: bool, writable: bool) -> np.ndarray:
    """Copy `array` between two pages that may not be touched, hard against one of them.

    Without `writable` a store into the copy faults too.
    """
    page = mmap.PAGESIZE
    inside = max(1, -(-array.nbytes // page)) * page
    memory = mmap.mmap(-1, inside + 2 * page)
    start = page + (inside - array.nbytes if at_end else 0)
    placed = np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape)
    placed[...] = array
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for offset, count, access in (
        (0, page, 0),
        (page, inside, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)),
        (page + inside, page, 0),
    ):
        if _mprotect(base + offset, count, access):
            raise OSError(ctypes.get_errno(), "mprotect")
    return placed


_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


_SECONDS = 300


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked child; return 0, 1 if it raised, or minus the signal that ended it.

    That is SIGALRM for a child that hangs.
    """
    if (child := os.fork()) == 0:
        signal.alarm(_SECONDS)
        code = 1
        try:
            work()
            code = 0
        finally:  # a forked child must not unwind into pytest
            if code:
                traceback.print_exc()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
