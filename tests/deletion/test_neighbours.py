"""A purge leaves every other session as it was, byte for byte, and nothing of what only the purged one showed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sessions import indexing, store
from sessions.models import Event, EventLog, SearchDocument, Segment, Session
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.api.support import Caller

if TYPE_CHECKING:
    from tests.api.conftest import Paths

pytestmark = pytest.mark.django_db(transaction=True)

AT = 1_790_000_000_000


def grow(session: Session, text: str) -> None:
    store.append(
        session.pk,
        [TurnStart(AT, prompt=text), NewEvent("message.user", AT, {"text": text}), TurnEnd(AT, "completed")],
    )


@pytest.fixture
def read(api: Caller, paths: Paths) -> Callable[[Session], dict[str, bytes]]:
    """All that the API tells of a session, as bytes."""

    def everything(session: Session) -> dict[str, bytes]:
        told = {}
        for below in ("turns", "events", "interactions", "export"):
            answer = api.get(paths.session(session.pk, below))
            assert answer.status_code == 200, (below, answer.content)
            told[below] = b"".join(answer.streaming_content) if answer.streaming else answer.content
        # Which forks were made at a turn changes with them; the turn does not.
        told["turns"] = re.sub(rb'"forks":\[[^]]*\]', b"", told["turns"])
        return told

    return everything


@pytest.mark.parametrize("seed", range(4))
def test_every_surviving_session_reads_as_before(
    api: Caller,
    paths: Paths,
    hosted: Callable[..., Session],
    read: Callable[[Session], dict[str, bytes]],
    seed: int,
) -> None:
    chance = random.Random(seed)
    family = [hosted(turns=2, title="root")]
    secrets = {}
    for number in range(7):
        source = chance.choice(family)
        source.refresh_from_db()
        ends = [event.seq for event in Event.objects.filter(log_id=source.log_id, kind="turn.end")]
        child = store.fork(source.pk, chance.choice(ends) if ends else None, created_by_id=source.created_by_id)
        secrets[child.pk] = f"only{number}"
        grow(child, secrets[child.pk])
        family.append(child)
    if seed % 2:
        store.rewind(family[0].pk, 4)
        grow(family[0], "another way")
    indexing.catch_up()
    while len(family) > 1:
        doomed = family.pop(chance.randrange(len(family)))
        before = [read(session) for session in family]
        shown = {row for session in family for row in places(session)}
        assert api.delete(paths.session(doomed.pk)).status_code == 204
        assert api.post(paths.session(doomed.pk, "purge")).status_code == 204
        assert [read(session) for session in family] == before
        left = set(Event.objects.values_list("log_id", "seq"))
        assert left == shown
        words = " ".join(SearchDocument.objects.values_list("words", flat=True))
        secret = secrets.get(doomed.pk)
        assert secret is None or (secret in words) == any(secret.encode() in told["events"] for told in before)
    store.purge(family[0].pk)
    assert not any(model._default_manager.exists() for model in (Event, EventLog, Segment, SearchDocument))


def places(session: Session) -> set[tuple[int, int]]:
    """What the session shows, by its segments alone."""
    session.refresh_from_db()
    shown = set()
    for segment in Segment.objects.filter(session=session):
        last = session.last_seq if segment.last_seq is None else segment.last_seq
        shown |= {(segment.log_id, seq) for seq in range(segment.first_seq, last + 1)}
    return shown


def test_what_forks_share_is_stored_once(hosted: Callable[..., Session]) -> None:
    source = hosted(turns=3)
    before = Event.objects.count()
    for _ in range(20):
        store.fork(source.pk)
    assert Event.objects.count() == before


def test_a_child_says_that_its_source_is_gone(
    api: Caller,
    paths: Paths,
    forked: Callable[..., dict[str, Any]],
    hosted: Callable[..., Session],
    client: Any,
    people: Any,
) -> None:
    source = hosted(turns=1)
    child = forked(source)["targetAgentSessionId"]
    lineage = api.get(paths.session(child)).json()["forkedFrom"]
    store.tombstone(source.pk)
    store.purge(source.pk)
    assert api.get(paths.session(child)).json()["forkedFrom"] == lineage
    client.force_login(people.member)
    assert "a session that was deleted" in client.get(f"/sessions/{child}/").content.decode()
