"""Sessions are listed first and read later, what somebody waits for before everything else."""

from __future__ import annotations

from sessions import syncing
from sessions.choices import Activity, SyncState
from sessions.models import Home, Session, SessionSync
from tests.importing.conftest import Desk, only_session, sessions_of, texts
from tests.importing.told import START_MS, Told, ToldAdapter, turn


def many(number: int) -> list[Told]:
    return [Told(f"s{index}", turn(1), updated_at_ms=START_MS + index) for index in range(number)]


def test_a_huge_home_is_listed_before_anything_of_it_is_read(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    sessions_of(told, told_home).extend(many(130))
    assert desk.scan(told_home) == 130
    assert told.reads == []
    listed = Session.objects.select_related("sync").get(provider_session_id="s7")
    assert (listed.preview, listed.cwd, listed.turn_count) == ("preview of s7", "/home/dev/project", 0)
    assert (listed.sync.state, listed.activity) == (SyncState.LISTED, Activity.UNKNOWN)
    assert listed.created_at_unix_ms == listed.updated_at_unix_ms == START_MS + 7
    assert SessionSync.objects.filter(state=SyncState.LISTED).count() == 130


def test_the_background_reads_the_newest_first(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    sessions_of(told, told_home).extend(many(5))
    desk.scan(told_home)
    rows = SessionSync.objects.values_list("session__provider_session_id", "next_run_at")
    due = {str(name): at for name, at in rows if at is not None}
    newest_first = ["s4", "s3", "s2", "s1", "s0"]
    assert newest_first == sorted(newest_first, key=due.__getitem__)
    desk.read_all()
    # Several may be listed within one millisecond, which is as exact as SQLite's clock is.
    assert [due[name] for name in told.reads] == [due[name] for name in newest_first]
    assert sorted(told.reads, reverse=True) == newest_first


def test_an_opened_session_is_read_before_the_others(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    sessions_of(told, told_home).extend(many(5))
    desk.scan(told_home)
    wanted = Session.objects.get(provider_session_id="s1")
    assert syncing.want(wanted.pk)
    assert not syncing.want(wanted.pk), "it is wanted already"
    read = desk.read_one(hurried=True)
    assert read is not None
    assert (read.pk, read.sync.state, read.sync.wanted_at) == (wanted.pk, SyncState.IMPORTED, None)
    assert desk.read_one(hurried=True) is None
    assert not syncing.want(wanted.pk), "there is nothing left to read"


def test_a_session_that_goes_on_is_read_before_the_backlog(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    told_sessions = sessions_of(told, told_home)
    told_sessions.append(Told("live", turn(1), updated_at_ms=START_MS))
    desk.bring_in(told_home)
    told_sessions.extend(many(4))
    told_sessions[0].grow(*turn(2))
    desk.scan(told_home)
    read = desk.read_one(hurried=True)
    assert read is not None
    assert read.provider_session_id == "live"
    assert read.turn_count == 2


def test_progress_is_visible_while_a_transcript_is_read_in_slices(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    from sessions.importing import import_claimed

    sessions_of(told, told_home).append(Told("s", [*turn(1), *turn(2), *turn(3)], cursor_every=4))
    desk.scan(told_home)
    lease = syncing.claim_next(desk.runner.pk, "desk", hurried=False)
    assert lease is not None
    import_claimed(lease, lambda: True)
    session = only_session(told_home)
    assert (session.sync.state, session.sync.bytes_done, session.sync.bytes_total) == (SyncState.IMPORTING, 4, 12)
    assert texts(session) == ["prompt 1", "answer 1"]
    desk.read_all()
    session = only_session(told_home)
    assert (session.sync.state, session.sync.bytes_done, session.turn_count) == (SyncState.IMPORTED, 12, 3)


def test_what_changes_while_it_is_read_is_read_again(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    one = Told("s", turn(1))
    sessions_of(told, told_home).append(one)
    desk.scan(told_home)

    def change_once(provider_session_id: str) -> None:
        told.before_read = lambda provider_session_id: None
        one.stamp += 1
        desk.scan(told_home)

    told.before_read = change_once
    desk.read_all()
    session = only_session(told_home)
    assert told.reads == ["s", "s"]
    assert session.sync.stamp_imported == session.sync.stamp_seen == "2"


def test_a_title_given_here_outlives_the_agents_own(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    from sessions import store

    one = Told("s", turn(1), facts={"title": "Theirs"})
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    assert only_session(told_home).title == "Theirs"
    one.facts["title"] = "Theirs, renamed"
    one.stamp += 1
    desk.bring_in(told_home)
    assert only_session(told_home).title == "Theirs, renamed"
    store.rename(only_session(told_home).pk, "Mine")
    one.facts["title"] = "Theirs, again"
    one.stamp += 1
    desk.bring_in(told_home)
    assert only_session(told_home).title == "Mine"


def test_a_purged_session_is_not_listed_again(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    from sessions import store

    one = Told("s", turn(1))
    sessions_of(told, told_home).append(one)
    scanner = desk.scanner(told_home)
    scanner.scan()
    desk.read_all()
    store.purge.__wrapped__(only_session(told_home).pk)  # type: ignore[attr-defined]
    one.grow(*turn(2))
    scanner.scan()
    desk.scan(told_home)
    assert not Session.objects.exists()
