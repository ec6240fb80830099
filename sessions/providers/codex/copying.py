"""Puts the beginning of one file under another name so that a crash or a loss of power leaves all of it or nothing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

CHUNK = 1 << 20
UNFINISHED = ".part"


def bring(source: Path, end: int, destination: Path, root: Path, *, over: int | None) -> None:
    """Make ``destination``, below ``root``, hold the first ``end`` bytes of ``source``; its folders are made.

    ``over`` is the size of the file that is there and may be replaced, None when there must be none. Whoever does the
    same at the same time waits. Raises ``FileExistsError`` when something else came to lie there meanwhile, and
    ``OSError``; ``destination`` is then as it was.
    """
    make_folders(destination.parent, root)
    with _unfinished(destination) as (file, path):
        _copy(source, end, file)
        if over is None:
            # A link, unlike a rename, never takes the place of what somebody made a moment ago.
            os.link(path, destination)
        else:
            if destination.stat().st_size != over:
                raise FileExistsError(f"{destination.name} grew while it was repaired")
            os.replace(path, destination)
        sync_folder(destination.parent)


def clear(destination: Path) -> None:
    """Take away what a killed process left beside a finished ``destination``. Raises ``OSError``."""
    if _unfinished_name(destination).exists():
        with _unfinished(destination):
            pass


def make_folders(folder: Path, root: Path) -> None:
    """Make ``folder`` and what is missing between it and ``root``, each durably."""
    missing = [path for path in (folder, *folder.parents) if path.is_relative_to(root) and not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _unfinished(destination: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """The one file in which ``destination`` is prepared, new and locked. Codex takes no file of that name for a record."""
    path = _unfinished_name(destination)
    while True:
        file = path.open("ab")
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_still(file, path):
            if file.tell() == 0 and os.fstat(file.fileno()).st_nlink == 1:
                break
            # A killed process left it, perhaps as a second name of what it had finished: never write into that.
            path.unlink()
        file.close()
    try:
        yield file, path
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _unfinished_name(destination: Path) -> Path:
    return destination.with_name(f".{destination.name}{UNFINISHED}")


def _is_still(file: IO[bytes], path: Path) -> bool:
    """Whether the name still leads to the locked file: who held the lock before took it away with its work."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _copy(source: Path, end: int, file: IO[bytes]) -> None:
    left = end
    with source.open("rb") as original:
        while left > 0 and (chunk := original.read(min(CHUNK, left))):
            file.write(chunk)
            left -= len(chunk)
    if left:
        raise OSError(f"{source.name} became shorter while it was copied")
    file.flush()
    os.fsync(file.fileno())
