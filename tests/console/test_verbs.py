"""Each verb has a page that says what it does, needs a reason, acts once, and is written down twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from forkhost.kit import clock
from forkhost.kit.clock import HeldClock
from operations.choices import OperationStatus
from operations.models import Evidence, Operation, OperationAudit
from operations.querysets import AppendOnly
from sessions.models import Session
from tests.agents.fake_provider import FakeAdapter
from tests.conftest import People
from tests.console.support import REASON, allow, card, press, row_of, unknown_fork, verb
from tests.operations.support import World, acts
from tests.pages.support import links, words

pytestmark = pytest.mark.django_db

S = OperationStatus
WITH_REASON = ["adopt", "not-created", "keep", "assign", "note"]


def child_of(world: World) -> str:
    return str(world.agent.children[0]["id"])


def test_the_card_shows_what_was_sent_what_was_seen_and_every_act(
    console: Client, world: World, unknown: Operation
) -> None:
    said = words(console.get(card(unknown)))
    assert child_of(world) in said
    assert "looks like it, and something else may have made it" in said
    assert "complete and verified" in said
    assert "Last proof before the call fake 1" in said
    assert "1 call" in said
    assert "Prepared" in said
    assert "Looked Up" in said
    assert "never sent a second time" in said


@pytest.mark.parametrize("name", ["look-again", *WITH_REASON])
def test_looking_at_a_verbs_page_changes_nothing(console: Client, unknown: Operation, name: str) -> None:
    before = row_of(unknown)
    page = console.get(verb(unknown, name))
    assert page.status_code == 200
    assert row_of(unknown) == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("name", WITH_REASON)
@pytest.mark.parametrize("reason", ["", "too short", "          "])
def test_a_verb_without_a_proper_reason_does_nothing(
    console: Client, world: World, unknown: Operation, name: str, reason: str
) -> None:
    before = row_of(unknown)
    answer = press(console, unknown, name, reason=reason, child=child_of(world), again=14400)
    assert answer.status_code == 422
    assert row_of(unknown) == before


def test_look_again_needs_no_reason_and_looks(console: Client, world: World, unknown: Operation) -> None:
    answer = press(console, unknown, "look-again", reason="")
    assert answer.status_code == 302
    world.work(unknown)
    assert acts(unknown)[-2:] == ["look_again", "looked_up"]


def test_an_adopted_child_becomes_the_fork_and_both_ledgers_say_who_and_why(
    console: Client, settler: User, world: World, unknown: Operation
) -> None:
    answer = press(console, unknown, "adopt", child=child_of(world))
    assert answer.status_code == 302
    world.work(unknown)
    assert unknown.status == S.COMMITTED
    assert Session.objects.get(pk=unknown.target_session_id).provider_session_id == child_of(world)
    act = OperationAudit.objects.get(operation_id=unknown.pk, reason="adopted")
    assert (act.actor, act.detail["reason"]) == (f"user:{settler.username}", REASON)
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id, entry.change_message) == (
        settler,
        str(unknown.pk),
        f"Adopt found child: {REASON}",
    )
    assert len(world.agent.calls) == 1


def test_only_a_verified_child_can_be_adopted(console: Client, unknown: Operation) -> None:
    answer = press(console, unknown, "adopt", child="child-of-somebody")
    assert answer.status_code == 422
    unknown.refresh_from_db()
    assert unknown.status == S.UNKNOWN


def test_confirmed_not_created_is_failed(console: Client, unknown: Operation) -> None:
    assert press(console, unknown, "not-created").status_code == 302
    unknown.refresh_from_db()
    assert (unknown.status, unknown.error_code) == (S.FAILED, "confirmed_not_created")


def test_kept_unknown_comes_back_when_it_was_said(
    console: Client, world: World, unknown: Operation, held_clock: HeldClock
) -> None:
    assert press(console, unknown, "keep", again=14400).status_code == 302
    held_clock.advance(14399)
    assert world.claim() is None
    held_clock.advance(1)
    world.work(unknown)
    assert (unknown.status, unknown.looks) == (S.UNKNOWN, 2)


def test_it_is_assigned_noted_and_released(console: Client, settler: User, unknown: Operation) -> None:
    press(console, unknown, "assign")
    assert f"{settler.username} looks after it" in words(console.get(card(unknown)))
    press(console, unknown, "note", reason="Asked the person at that machine.")
    press(console, unknown, "release")
    unknown.refresh_from_db()
    assert (unknown.assigned_to_id, unknown.status) == (None, S.UNKNOWN)
    assert acts(unknown)[-3:] == ["assigned", "noted", "released"]
    assert "Asked the person at that machine." in words(console.get(card(unknown)))


def test_the_operator_who_comes_second_is_told_who_was_first_and_what_they_did(
    console: Client,
    people: People,
    unknown: Operation,
    browser_of: Callable[[User], Client],
) -> None:
    from sessions.choices import MemberRole
    from sessions.models import Membership

    Membership.objects.filter(user=people.second_member).update(role=MemberRole.OPERATOR)
    User.objects.filter(pk=people.second_member.pk).update(is_staff=True)
    second = browser_of(allow(people.second_member))
    version = row_of(unknown)["version"]
    press(console, unknown, "not-created")
    after = row_of(unknown)
    answer = second.post(verb(unknown, "keep"), {"version": version, "reason": REASON, "again": 14400})
    assert answer.status_code == 409
    assert "Confirmed Not Created by user:operator" in words(answer)
    assert row_of(unknown) == after
    assert LogEntry.objects.count() == 1


def test_settling_one_leaves_every_other_row_as_it_was(
    console: Client, world: World, unknown: Operation, held_clock: HeldClock
) -> None:
    unknown_fork(world, held_clock)
    others = Operation.objects.exclude(pk=unknown.pk)
    before = list(others.values())
    evidence = list(Evidence.objects.exclude(operation_id=unknown.pk).values())
    press(console, unknown, "not-created")
    assert list(others.values()) == before
    assert list(Evidence.objects.exclude(operation_id=unknown.pk).values()) == evidence


def test_what_contradicts_a_failed_fork_leaves_the_list_once_somebody_has_seen_it(
    console: Client, unknown: Operation
) -> None:
    press(console, unknown, "not-created")
    Operation.objects.filter(pk=unknown.pk).update(needs_person=True)
    assert press(console, unknown, "seen").status_code == 302
    unknown.refresh_from_db()
    assert (unknown.status, unknown.needs_person) == (S.FAILED, False)


def test_a_settled_fork_offers_nothing_that_settles(console: Client, unknown: Operation) -> None:
    press(console, unknown, "not-created")
    offered = {link.rstrip("/").rsplit("/", 1)[-1] for link in links(console.get(card(unknown))) if "/settle/" in link}
    assert offered == {"note", "record"}
    assert console.get(verb(unknown, "adopt")).status_code == 302
    assert console.get(verb(unknown, "send-again")).status_code == 404


def test_no_verb_leads_to_the_agents_fork(
    console: Client, world: World, held_clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks = [unknown_fork(world, held_clock) for _ in range(4)]
    called: list[str] = []

    def refuse(*arguments: object) -> None:
        called.append("fork")
        raise AssertionError("nobody may send a fork again")

    monkeypatch.setattr(FakeAdapter, "fork", refuse)
    children = {child["id"] for child in world.agent.children}
    for operation in forks:
        for name in ("look-again", "assign", "note", "keep", "release"):
            press(console, operation, name, again=14400)
            operation.refresh_from_db()
    held_clock.advance(14400)
    for _ in forks:
        world.work()
    known = {row["providerSessionId"] for row in Evidence.objects.filter(operation_id=forks[0].pk).last().candidates}
    press(console, forks[0], "adopt", child=sorted(known)[0])
    press(console, forks[1], "not-created")
    for _ in range(6):
        world.work()
    assert called == []
    assert {child["id"] for child in world.agent.children} == children
    assert set(Operation.objects.values_list("calls", flat=True)) == {1}


def test_what_was_seen_and_done_can_be_neither_changed_nor_deleted(unknown: Operation) -> None:
    for rows in (Evidence.objects.filter(operation_id=unknown.pk), OperationAudit.objects.all()):
        row = rows.first()
        assert row is not None
        for change in (row.save, row.delete, rows.delete, lambda rows=rows: rows.update(detail={})):
            with pytest.raises(AppendOnly):
                change()


def test_the_raw_record_is_capped_on_the_page_and_whole_in_the_file(console: Client, unknown: Operation) -> None:
    Evidence.objects.create(operation_id=unknown.pk, at=clock.now(), method="lookup", detail={"failed": "x" * 30_000})
    page = console.get(card(unknown))
    assert "(cut here)" in words(page)
    record = console.get(f"{card(unknown)}record/")
    assert record["Content-Disposition"] == f'attachment; filename="fork-{unknown.pk}.json"'
    assert "x" * 30_000 in record.content.decode()
