"""Pictures of transcripts are kept by their content; what is no picture is left where it is."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from sessions import attachments, history
from sessions.models import Attachment, Blob, Home
from sessions.pictures import LARGEST, with_stored_pictures
from sessions.providers.base import EventKind, Json, ReadEvent
from tests.importing.conftest import RECORDINGS, Desk, only_session, put_claude, sessions_of
from tests.importing.told import START_MS, Told, ToldAdapter, turn

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def with_image(image: Json) -> Json:
    return {"text": "look", "images": [image]}


def test_a_picture_in_a_file_is_stored_and_outlives_the_file(
    desk: Desk, told: ToldAdapter, told_home: Home, tmp_path: Path
) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(PNG)
    shown = ReadEvent(EventKind.CONTEXT, START_MS, with_image({"mediaType": "image/png", "path": str(picture)}))
    one = Told("s", [shown, *turn(1)])
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    session = only_session(told_home)
    (image,) = history.events(session)[0].payload["images"]
    picture.unlink()
    with attachments.open_blob(image["sha256"]) as blob:
        assert blob.read() == PNG
    attachment = Attachment.objects.get()
    assert (attachment.seq, attachment.blob_id, attachment.blob.size) == (1, image["sha256"], len(PNG))
    one.rewrite(one.items)
    desk.bring_in(told_home)
    assert only_session(told_home).history_revision == 0, "a file that is gone changes no history"


def test_a_recorded_prompt_keeps_the_picture_that_was_pasted_into_it(desk: Desk) -> None:
    expected = json.loads((RECORDINGS / "claude" / "expected_turns.json").read_text())
    home = put_claude(desk, tools=expected["tools"]["session_id"])
    desk.bring_in(home)
    blob = Blob.objects.get()
    assert (blob.media_type, blob.size) == ("image/png", 75)
    session = only_session(home)
    (asked,) = [event for event in history.events(session) if event.payload.get("images")]
    assert "data" not in asked.payload["images"][0]
    assert asked.payload["images"][0]["sha256"] == blob.pk


def test_a_data_url_is_stored_like_a_file(db: None) -> None:
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    (image,) = with_stored_pictures(with_image({"mediaType": "image/*", "url": url}))["images"]
    assert image["mediaType"] == "image/png"
    assert "url" not in image
    assert Blob.objects.get(pk=image["sha256"]).size == len(PNG)


def secret(folder: Path) -> Path:
    path = folder / "id_ed25519.png"
    path.write_text("-----BEGIN OPENSSH PRIVATE KEY-----")
    return path


def pipe(folder: Path) -> Path:
    path = folder / "pipe.png"
    os.mkfifo(path)
    return path


def too_large(folder: Path) -> Path:
    path = folder / "large.png"
    with path.open("wb") as file:
        file.write(PNG)
        file.truncate(LARGEST + 1)
    return path


@pytest.mark.parametrize("make", [secret, pipe, too_large, lambda folder: folder, lambda folder: folder / "\0"])
def test_what_is_no_picture_of_bounded_size_is_never_taken(db: None, tmp_path: Path, make: object) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    (image,) = with_stored_pictures(with_image({"mediaType": "image/png", "path": str(path)}))["images"]
    assert image == {"mediaType": "image/png", "path": str(path)}
    assert not Blob.objects.exists()


def test_a_digest_without_bytes_is_not_claimed_to_be_stored(db: None) -> None:
    (image,) = with_stored_pictures(with_image({"mediaType": "image/png", "sha256": "0" * 64}))["images"]
    assert "sha256" not in image
