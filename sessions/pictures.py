"""Moves pictures that transcripts carry or point to into forkhost's own content-addressed store.

A provider may delete the file a transcript points to, and a fork must still show it. Transcripts are hostile: only
regular files that really are pictures are taken, so that a forged path cannot publish something else of this machine.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from pathlib import Path
from typing import Any

import structlog

from sessions import attachments
from sessions.models import Blob

log = structlog.get_logger(__name__)

LARGEST = 20 * 1024 * 1024
LONGEST_HEAD = 16

# Where the bytes come from; they are replaced by the digest, so that no payload carries megabytes of text.
DATA, URL, PATH, SHA256 = "data", "url", "path", "sha256"
_DATA_URL = "data:"
_BASE64 = ";base64"

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


def with_stored_pictures(payload: dict[str, Any]) -> dict[str, Any]:
    """``payload`` with each of its ``images`` named by ``sha256`` and ``size`` where the bytes could be stored.

    One whose bytes are not to be had keeps its facts without ``sha256``; the path stays for the reader.
    """
    images = payload.get("images")
    if not isinstance(images, list) or not images:
        return payload
    return {**payload, "images": [_stored(image) if isinstance(image, dict) else image for image in images]}


def without_pictures(payload: dict[str, Any]) -> dict[str, Any]:
    """``payload`` without what depends on files that may have gone since it was imported."""
    images = payload.get("images")
    if not isinstance(images, list):
        return payload
    kept = (PATH, "mediaType")
    return {
        **payload,
        "images": [{key: image[key] for key in kept if key in image} for image in images if isinstance(image, dict)],
    }


def picture_type(head: bytes) -> str:
    """The media type of a picture that begins with ``head``, "" for anything else."""
    for signature, media_type in _SIGNATURES:
        if head.startswith(signature):
            return media_type
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""


def _stored(image: dict[str, Any]) -> dict[str, Any]:
    bare = {key: value for key, value in image.items() if key not in (DATA, SHA256, "size")}
    if str(bare.get(URL, "")).startswith(_DATA_URL):
        bare.pop(URL)
    content = _content(image)
    if content is not None:
        media_type = picture_type(content[:LONGEST_HEAD])
        if media_type and len(content) <= LARGEST:
            sha256 = attachments.store_bytes(content, media_type=media_type)
            return {**bare, "mediaType": media_type, SHA256: sha256, "size": len(content)}
        return bare
    given = image.get(SHA256)
    if isinstance(given, str) and Blob.objects.filter(pk=given).exists():
        return {**bare, SHA256: given, "size": image.get("size", 0)}
    return bare


def _content(image: dict[str, Any]) -> bytes | None:
    """The picture's bytes, from the transcript itself or from the file it points to; None when there are none."""
    encoded = image.get(DATA)
    url = image.get(URL)
    if not encoded and isinstance(url, str) and url.startswith(_DATA_URL):
        head, _, encoded = url.partition(",")
        if not head.endswith(_BASE64):
            return None
    if isinstance(encoded, str) and encoded:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return None
    path = image.get(PATH)
    return _read(Path(path)) if isinstance(path, str) and path else None


def _read(path: Path) -> bytes | None:
    """A regular file of bounded size; never a pipe, a device, or something that only looks small."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(LARGEST + 1)
    except OSError:
        log.info("picture_unreadable", path=str(path))
        return None
    finally:
        os.close(descriptor)
