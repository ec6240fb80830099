"""Files are kept by their content."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sessions import attachments, store
from sessions.errors import AttachmentMissing
from sessions.models import Attachment, Blob, Workspace
from tests.store.histories import fresh, hosted, imported, turn


@pytest.mark.django_db
def test_content_is_kept_once_under_its_digest(tmp_path: Path) -> None:
    content = b"\x89PNG" * 100_000
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    digest = attachments.store_file(path, media_type="image/png")
    assert digest == hashlib.sha256(content).hexdigest() == attachments.store_bytes(content)
    blob = Blob.objects.get()
    assert (blob.size, blob.media_type) == (len(content), "image/png")
    with attachments.open_blob(digest) as file:
        assert file.read() == content
    assert not list(attachments.folder().glob(".new-*"))


@pytest.mark.django_db
def test_storing_again_heals_a_lost_or_torn_file() -> None:
    digest = attachments.store_bytes(b"content")
    attachments.path_of(digest).write_bytes(b"con")
    attachments.store_bytes(b"content")
    assert attachments.path_of(digest).read_bytes() == b"content"
    attachments.path_of(digest).unlink()
    with pytest.raises(AttachmentMissing):
        attachments.open_blob(digest)
    attachments.store_bytes(b"content")
    attachments.open_blob(digest).close()


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_what_is_no_digest_opens_nothing(name: str) -> None:
    with pytest.raises(AttachmentMissing):
        attachments.open_blob(name)


@pytest.mark.django_db
def test_a_snapshot_lists_the_files_of_its_prefix_and_those_that_are_missing(workspace: Workspace) -> None:
    session = hosted(workspace)
    early, late = attachments.store_bytes(b"early"), attachments.store_bytes(b"late!!")
    store.append(session.pk, [*turn(1), store.NewEvent("context", 1, {"images": [{"sha256": early}]}), *turn(2)])
    child = store.fork(session.pk)
    store.append(child.pk, [store.NewEvent("context", 1, {"images": [{"sha256": early}, {"sha256": late}]})])
    snapshot = store.freeze(child.pk)
    assert [(item.seq, item.sha256, item.size) for item in snapshot.attachments] == [
        (5, early, 5),
        (10, early, 5),
        (10, late, 6),
    ]
    assert [item.seq for item in store.freeze(child.pk, 9).attachments] == [5]
    assert attachments.missing(snapshot) == []
    attachments.path_of(late).unlink()
    assert [item.sha256 for item in attachments.missing(snapshot)] == [late]


@pytest.mark.django_db
def test_a_hosted_event_cannot_point_to_a_file_that_is_not_stored(workspace: Workspace) -> None:
    picture = store.NewEvent("context", 1, {"images": [{"sha256": "0" * 64}]})
    session = hosted(workspace)
    with pytest.raises(AttachmentMissing):
        store.append(session.pk, [picture])
    assert fresh(session).last_seq == 0
    store.append(imported(workspace).pk, [picture])
    assert not Attachment.objects.exists()
