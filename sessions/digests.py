"""The running digest that makes every boundary provable."""

from __future__ import annotations

import hashlib


def event_digest(previous: bytes, seq: int, kind: str, at_unix_ms: int, payload: str) -> bytes:
    """SHA-256 over the previous event's digest (empty at seq 1), seq, kind, time and the stored payload text."""
    head = f"\n{seq}\n{kind}\n{at_unix_ms}\n".encode()
    return hashlib.sha256(previous + head + payload.encode("ascii")).digest()
