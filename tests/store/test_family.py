"""The family as an indented list, safe against whatever the edges say."""

from __future__ import annotations

import pytest

from sessions import lineage, store
from sessions.models import Session
from tests.conftest import People
from tests.store.histories import hosted, turn


def listed(session: Session, people: People) -> list[tuple[str, int, str]]:
    """Title, depth and relation of each row that the member sees."""
    rows = lineage.family(Session.objects.get(pk=session.pk), people.member)
    return [(node.session.title, node.depth, str(node.relation)) for node in rows]


@pytest.fixture
def root(people: People) -> Session:
    """A session with one turn."""
    session = hosted(people.workspace, title="root", created_at_unix_ms=1)
    store.append(session.pk, turn(1))
    return session


def test_forks_hang_below_their_source(root: Session, people: People) -> None:
    a = store.fork(root.pk, title="a")
    store.fork(root.pk, title="b")
    store.fork(a.pk, title="a1")
    expected = [("root", 0, "root"), ("a", 1, "fork"), ("a1", 2, "fork"), ("b", 1, "fork")]
    assert listed(root, people) == listed(a, people) == expected


def test_a_fork_without_its_source_stands_at_the_top_and_keeps_its_lineage(root: Session, people: People) -> None:
    child = store.fork(root.pk, title="child")
    store.tombstone(root.pk)
    assert listed(child, people) == [("child", 0, "fork")]
    store.purge(root.pk)
    assert listed(child, people) == [("child", 0, "fork")]
    node = lineage.family(child, people.member)[0]
    assert node.lineage is not None
    assert node.lineage.source_session_id == root.pk


def test_a_detached_fork_stands_at_the_top_and_keeps_its_lineage(root: Session, people: People) -> None:
    child = store.fork(root.pk, title="child")
    store.detach(child.pk, actor="ann")
    assert listed(root, people) == [("root", 0, "root"), ("child", 0, "fork")]
    store.detach(child.pk, False)
    assert listed(root, people) == [("root", 0, "root"), ("child", 1, "fork")]


def test_observed_parents_are_shown_and_cycles_end(root: Session, people: People) -> None:
    one = hosted(people.workspace, title="one", created_at_unix_ms=2)
    two = hosted(people.workspace, title="two", created_at_unix_ms=3)
    Session.objects.filter(pk__in=[one.pk, two.pk]).update(family=root.family)
    Session.objects.filter(pk=one.pk).update(observed_parent_id=two.pk)
    Session.objects.filter(pk=two.pk).update(observed_parent_id=one.pk)
    assert listed(root, people) == [("root", 0, "root"), ("one", 0, "observed"), ("two", 1, "observed")]
    Session.objects.filter(pk=one.pk).update(observed_parent_id=one.pk)
    assert listed(root, people) == [("root", 0, "root"), ("one", 0, "observed"), ("two", 1, "observed")]


def test_nobody_sees_private_or_foreign_members(root: Session, people: People) -> None:
    store.fork(root.pk, title="hers", created_by_id=people.second_member.pk)
    store.set_visibility(Session.objects.get(title="hers").pk, "private")
    assert listed(root, people) == [("root", 0, "root")]
    assert lineage.family(root, people.stranger) == []
    assert len(lineage.family(root, people.second_member)) == 2
