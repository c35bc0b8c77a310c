"""A fork waits until no model runs: its child would get locks that no thread of it gives back.

A model's own lock could be made anew there, but not those of TVM's memory pools.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

_RUNS = ("run", "__call__")  # the methods that hold an owner's lock
_locks: WeakKeyDictionary[Any, threading.Lock] = WeakKeyDictionary()
_changing = threading.Lock()
_held: list[threading.Lock] = []


def run_lock(owner: Any) -> threading.Lock:
    """Return a lock that `owner` holds while it runs."""
    lock = threading.Lock()
    with _changing:
        _locks[owner] = lock
    return lock


def _before() -> None:
    _changing.acquire()
    running = list(_running_here())
    for owner, lock in list(_locks.items()):
        if not any(owner is each for each in running):
            lock.acquire()
            _held.append(lock)


def _after() -> None:
    while _held:
        _held.pop().release()
    _changing.release()


def _running_here() -> Iterator[Any]:
    """Yield what this thread runs while it forks, as a kernel may that calls Python."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in _RUNS:
            yield frame.f_locals.get("self")
        frame = frame.f_back


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
