"""What the page remembers for its visitors: bounded in bytes and in time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any


class Store:
    """Values by (owner, key), the least recently used dropped beyond ``max_bytes``.

    A value also goes when it was not used for ``keep_seconds``, and all of an owner's values go
    when that visitor leaves. Every value can be made again from the photo, so a miss is never
    an error. Safe to use from several threads.
    """

    def __init__(self, max_bytes: int = 1_500_000_000, keep_seconds: float = 1800) -> None:
        self.max_bytes = max_bytes
        self.keep_seconds = keep_seconds
        self._entries: OrderedDict[tuple[str, Hashable], tuple[float, int, Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """The declared size of everything held now."""
        return self._bytes

    def put(self, owner: str, key: Hashable, value: Any, size: int) -> None:
        """Remember ``value``, which takes about ``size`` bytes; a larger than all is not kept."""
        with self._lock:
            self._remove((owner, key))
            self._expire()
            if size > self.max_bytes:
                return
            while self._bytes + size > self.max_bytes:
                self._remove(next(iter(self._entries)))
            self._entries[owner, key] = (time.monotonic(), size, value)
            self._bytes += size

    def get(self, owner: str, key: Hashable) -> Any | None:
        """The value, now the most recently used, or None."""
        with self._lock:
            self._expire()
            entry = self._entries.pop((owner, key), None)
            if entry is None:
                return None
            _, size, value = entry
            self._entries[owner, key] = (time.monotonic(), size, value)
            return value

    def drop(self, owner: str) -> None:
        """Forget everything of one visitor."""
        with self._lock:
            for place in [place for place in self._entries if place[0] == owner]:
                self._remove(place)

    def _expire(self) -> None:
        limit = time.monotonic() - self.keep_seconds
        while self._entries and next(iter(self._entries.values()))[0] < limit:
            self._remove(next(iter(self._entries)))

    def _remove(self, place: tuple[str, Hashable]) -> None:
        entry = self._entries.pop(place, None)
        if entry is not None:
            self._bytes -= entry[1]
