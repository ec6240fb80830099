"""An export holds the whole session, in parts that nothing in a transcript can break."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sessions.api import export
from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths

pytestmark = pytest.mark.django_db

HOSTILE = '```\n</script> \u2028 \x85 \x00 \ud83d \u202e "}\n'


@pytest.fixture
def session(hosted: Callable[..., Session]) -> Session:
    """Two turns, and a note made to break things."""
    from sessions import store
    from sessions.store import NewEvent

    made = hosted(turns=2, title="Export")
    store.append(made.pk, [NewEvent("note", 1_790_000_000_000, {"text": HOSTILE})])
    made.refresh_from_db()
    return made


def body_of(response: Any) -> bytes:
    assert response.status_code == 200
    return b"".join(response.streaming_content)


def test_lines_hold_session_events_and_an_end(
    api: Caller, paths: Paths, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessions import history

    monkeypatch.setattr(export, "CHUNK", 4)
    response = api.get(paths.session(session.pk, "export"))
    assert response["Content-Type"] == "application/x-ndjson"
    assert response["Content-Disposition"] == f'attachment; filename="session-{session.pk}.ndjson"'
    assert response["X-Content-Type-Options"] == "nosniff"
    raw = body_of(response)
    assert raw.isascii()
    lines = [json.loads(line) for line in raw.rstrip(b"\n").split(b"\n")]
    assert [line["type"] for line in lines] == ["session", *["event"] * 9, "end"]
    assert lines[0]["session"] == api.get(paths.sessions).json()["items"][0]
    assert [line["event"] for line in lines[1:-1]] == api.get(paths.session(session.pk, "events")).json()["items"]
    assert lines[-2]["event"]["payload"]["text"] == HOSTILE
    assert lines[-1] == {"type": "end", "count": 9, "digest": history.digest_at(session, 9).hex()}


def test_a_document_holds_the_same(
    api: Caller, paths: Paths, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "CHUNK", 4)
    response = api.get(paths.session(session.pk, "export"), format="json")
    assert response["Content-Type"] == "application/json"
    document = json.loads(body_of(response))
    assert document["events"] == api.get(paths.session(session.pk, "events")).json()["items"]
    assert (document["count"], len(document["digest"])) == (9, 64)


@pytest.mark.parametrize("form", ["ndjson", "json"])
def test_an_empty_session_is_exported(api: Caller, paths: Paths, hosted: Callable[..., Session], form: str) -> None:
    raw = body_of(api.get(paths.session(hosted(turns=0).pk, "export"), format=form))
    last = json.loads(raw if form == "json" else raw.rstrip(b"\n").split(b"\n")[-1])
    assert (last["count"], last["digest"]) == (0, None)


def test_a_rewind_in_the_middle_leaves_no_end(
    api: Caller, paths: Paths, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessions import store
    from sessions.errors import StaleSession

    monkeypatch.setattr(export, "CHUNK", 4)
    parts = iter(api.get(paths.session(session.pk, "export")).streaming_content)
    seen = next(parts) + next(parts)
    store.rewind(session.pk, 4)
    with pytest.raises(StaleSession):
        list(parts)
    assert b'"type":"end"' not in seen


def test_another_format_is_refused(api: Caller, paths: Paths, session: Session) -> None:
    assert_problem(api.get(paths.session(session.pk, "export"), format="pdf"), 400, "invalid_request", "format")
