"""Deleting, restoring, purging and detaching, over the API, on the pages and by the clock."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from forkhost.kit.clock import HeldClock
from sessions import disposal, store
from sessions.models import Session, SessionAudit
from tests.api.support import Caller, assert_problem, fork_body

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db(transaction=True)

DAY = 86_400


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [item["id"] for item in response.json()["items"]]


def audited(session: Session) -> set[tuple[str, str]]:
    return set(SessionAudit.objects.filter(session_id=session.pk).values_list("action", "actor"))


def test_a_deleted_session_comes_back_whole(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    session = hosted(turns=2)
    before = api.get(paths.session(session.pk, "events")).content
    assert api.delete(paths.session(session.pk)).status_code == 204
    assert ids(api.get(paths.sessions)) == []
    listed = api.get(paths.sessions, deleted="true")
    assert ids(listed) == [str(session.pk)]
    assert listed.json()["items"][0]["deletedAtUnixMs"]
    restored = api.post(paths.session(session.pk, "restore"))
    assert (restored.status_code, restored.json()["deletedAtUnixMs"]) == (200, None)
    assert api.get(paths.session(session.pk, "events")).content == before
    assert ids(api.get(paths.sessions, deleted="true")) == []
    assert audited(session) == {("tombstone", "member"), ("restore", "member")}


def test_only_what_is_deleted_is_restored_or_purged(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    session = hosted()
    for verb in ("restore", "purge"):
        assert_problem(api.post(paths.session(session.pk, verb)), 404, "session_not_found")
    assert api.get(paths.session(session.pk)).status_code == 200
    assert_problem(api.get(paths.sessions, deleted="maybe"), 400, "invalid_request", "deleted")
    assert_problem(api.get(paths.sessions, deleted="true", q="x"), 400, "invalid_request", "q")


def test_who_made_a_session_or_operates_the_workspace_purges_it(
    people: People, api: Caller, calling: Callable[..., Caller], paths: Paths, hosted: Callable[..., Session]
) -> None:
    for purger, status in ((people.second_member, 403), (people.member, 204), (people.operator, 204)):
        session = hosted(turns=1)
        store.tombstone(session.pk)
        answer = calling(purger).post(paths.session(session.pk, "purge"))
        assert answer.status_code == status, answer.content
        assert Session.objects.filter(pk=session.pk).exists() == (status == 403)
    assert_problem(api.post(paths.session(session.pk, "restore")), 404, "session_not_found")
    assert_problem(api.post(paths.sessions, {"id": str(session.pk)}), 409, "session_already_exists")


def test_a_purge_waits_for_a_fork_under_way(
    api: Caller, paths: Paths, hosted: Callable[..., Session], carry_out: Callable[[], int]
) -> None:
    session = hosted(turns=1)
    answer = api.post(paths.session(session.pk, "fork"), fork_body())
    assert answer.status_code == 202
    assert api.delete(paths.session(session.pk)).status_code == 204
    assert_problem(api.post(paths.session(session.pk, "purge")), 409, "session_held")
    assert disposal.purge_expired(0) == []
    carry_out()
    assert api.get(answer["Location"]).json()["status"] == "committed"
    assert api.post(paths.session(session.pk, "purge")).status_code == 204
    child = answer.json()["targetAgentSessionId"]
    assert len(api.get(paths.session(child, "events")).json()["items"]) == 4


def test_a_fork_is_detached_and_attached_with_a_trace(
    api: Caller, paths: Paths, forked: Callable[..., dict[str, Any]], hosted: Callable[..., Session]
) -> None:
    source = hosted(turns=1)
    child = Session.objects.get(pk=forked(source)["targetAgentSessionId"])

    def depths() -> list[int]:
        return [member["depth"] for member in api.get(paths.session(source.pk, "family")).json()["items"]]

    assert depths() == [0, 1]
    answer = api.patch(paths.session(child.pk), {"detached": True}).json()
    assert (answer["detached"], answer["forkedFrom"]["sourceAgentSessionId"]) == (True, str(source.pk))
    assert depths() == [0, 0]
    api.patch(paths.session(child.pk), {"detached": False})
    assert depths() == [0, 1]
    assert audited(child) == {("detach", "member"), ("attach", "member")}


def test_the_bin_is_emptied_by_age(
    hosted: Callable[..., Session], held_clock: HeldClock, settings: SettingsWrapper
) -> None:
    old, young, living = hosted(), hosted(), hosted()
    store.tombstone(old.pk)
    held_clock.advance(5 * DAY)
    store.tombstone(young.pk)
    held_clock.advance(2 * DAY)
    settings.FORKHOST_PURGE_AFTER_DAYS = 0
    assert disposal.sweep() == 0
    settings.FORKHOST_PURGE_AFTER_DAYS = 7
    assert disposal.sweep() == 1
    assert set(Session.objects.values_list("pk", flat=True)) == {young.pk, living.pk}
    assert ("purge", disposal.ACTOR) in audited(old)


def test_a_session_restored_meanwhile_is_not_purged(
    hosted: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = hosted()
    store.tombstone(session.pk)
    purge = store.purge

    def restored_first(*args: Any, **kwargs: Any) -> None:
        store.restore(session.pk)
        purge(*args, **kwargs)

    monkeypatch.setattr(store, "purge", restored_first)
    assert disposal.purge_expired(0) == []
    assert Session.objects.get(pk=session.pk).tombstoned_at is None


def test_the_command_lists_and_purges(hosted: Callable[..., Session]) -> None:
    session, living = hosted(title="Old"), hosted()
    store.tombstone(session.pk)
    out = StringIO()
    call_command("purge", "--older-than", "0", "--dry-run", stdout=out)
    assert out.getvalue() == f"{session.pk}  Old\n"
    assert Session.objects.count() == 2
    call_command("purge", "--older-than", "0", stdout=StringIO())
    assert list(Session.objects.values_list("pk", flat=True)) == [living.pk]
    with pytest.raises(CommandError):
        call_command("purge", "--older-than", "-1")


def test_the_pages_delete_restore_and_purge(client: Client, people: People, hosted: Callable[..., Session]) -> None:
    session = hosted(title="<b>Bold</b>")
    client.force_login(people.second_member)
    page = f"/sessions/{session.pk}/"
    assert client.get(f"{page}delete/").status_code == 405
    assert client.post(f"{page}delete/").status_code == 303
    assert client.get(page).status_code == 404
    deleted = client.get("/deleted/").content.decode()
    assert "&lt;b&gt;Bold" in deleted
    assert "<b>Bold" not in deleted
    assert "Remove for good" not in deleted
    assert client.post(f"{page}purge/").status_code == 403
    assert client.post(f"{page}restore/")["Location"] == page
    assert client.get(page).status_code == 200
    client.force_login(people.operator)
    client.post(f"{page}delete/")
    assert "Remove for good" in client.get("/deleted/").content.decode()
    assert client.post(f"{page}purge/", follow=True).status_code == 200
    assert not Session.objects.filter(pk=session.pk).exists()


def test_strangers_find_nothing_in_the_bin(client: Client, people: People, hosted: Callable[..., Session]) -> None:
    session, private = hosted(title="Plans"), hosted(title="Diary", visibility="private")
    client.force_login(people.stranger)
    for verb in ("delete", "restore", "purge", "detach"):
        store.restore(session.pk)
        if verb in ("restore", "purge"):
            store.tombstone(session.pk)
        assert client.post(f"/sessions/{session.pk}/{verb}/").status_code == 404
    store.tombstone(private.pk)
    assert "Plans" not in client.get("/deleted/").content.decode()
    client.force_login(people.second_member)
    assert "Diary" not in client.get("/deleted/").content.decode()
    assert client.post(f"/sessions/{private.pk}/restore/").status_code == 404
