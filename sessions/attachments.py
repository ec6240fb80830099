"""Files that histories point to, kept by their content in the data folder.

A file is written whole under another name, synced, and linked into place; its row is what makes it count. Removing one
takes the row first and the file only while nobody can bring the row back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from django.conf import settings
from django.db import transaction

from sessions import payloads
from sessions.errors import AttachmentMissing
from sessions.models import Blob

if TYPE_CHECKING:
    from sessions.store.snapshots import FrozenAttachment, Snapshot

CHUNK = 1 << 20


def folder() -> Path:
    """Where the files lie."""
    return Path(settings.FORKHOST_DATA) / "blobs"


def path_of(sha256: str) -> Path:
    """The file of a digest (hex), whether it exists or not. Raises ValueError for what is no digest."""
    if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        raise ValueError("not a SHA-256 in hex")
    return folder() / sha256[:2] / sha256


def store_bytes(content: bytes, *, media_type: str = "") -> str:
    """Keep ``content``; its SHA-256 in hex. Storing it again only makes sure that it is there."""
    return _store([content], media_type)


def store_file(path: Path, *, media_type: str = "") -> str:
    """Keep a copy of the file at ``path``; its SHA-256 in hex. Raises OSError when it cannot be read."""
    with path.open("rb") as source:
        return _store(iter(lambda: source.read(CHUNK), b""), media_type)


def open_blob(sha256: str) -> BinaryIO:
    """The file, for reading; the caller closes it. Raises :class:`AttachmentMissing`."""
    try:
        return path_of(sha256).open("rb")
    except (OSError, ValueError) as error:
        raise AttachmentMissing(f"No stored file has the digest {sha256}.") from error


def missing(snapshot: Snapshot) -> list[FrozenAttachment]:
    """What the frozen history points to and no file holds, or holds with another size."""
    return [item for item in snapshot.attachments if not _present(item.sha256, item.size)]


def _present(sha256: str, size: int) -> bool:
    try:
        return path_of(sha256).stat().st_size == size
    except (OSError, ValueError):
        return False


def _store(chunks: Iterable[bytes], media_type: str) -> str:
    with _written(chunks) as (temporary, sha256, size), transaction.atomic():
        # The row comes first: its lock keeps a removal of the same content away until the file is in place.
        Blob.objects.get_or_create(sha256=sha256, defaults={"size": size, "media_type": payloads.clip(media_type, 100)})
        target = path_of(sha256)
        if not _present(sha256, size):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.replace(temporary, target)
            _sync_folder(target.parent)
    return sha256


@contextlib.contextmanager
def _written(chunks: Iterable[bytes]) -> Iterator[tuple[str, str, int]]:
    """A synced temporary file with the content, its digest and size; removed afterwards if it is still there."""
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder(), prefix=".new-")
    digest, size = hashlib.sha256(), 0
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
            file.flush()
            os.fsync(file.fileno())
        yield name, digest.hexdigest(), size
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unreferenced(digests: Collection[str]) -> int:
    """Remove those files that no history points to any more; how many.

    A crash between file and commit leaves a row without a file, which storing the same content again heals.
    """
    removed = 0
    for sha256 in sorted(digests):
        with transaction.atomic():
            # The lock, or on SQLite the transaction, keeps a new attachment and a new storing waiting until the end.
            blob = Blob.objects.select_for_update().filter(pk=sha256).first()
            if blob is None or blob.attachments.exists():
                continue
            blob.delete()
            with contextlib.suppress(FileNotFoundError):
                path_of(sha256).unlink()
            removed += 1
    return removed
