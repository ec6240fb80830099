"""An update can say in one statement what it made of its row."""

from __future__ import annotations

import pytest
from django.db.models import F

from forkhost.kit.returning import update_returning
from sessions import store
from sessions.models import Family, Session, Workspace

pytestmark = pytest.mark.django_db


def test_the_row_is_returned_as_the_update_left_it() -> None:
    family = Family.objects.create(title="Fix login")
    before = Family.objects.get(pk=family.pk).next_number

    found = update_returning(
        Family.objects.filter(pk=family.pk), ("next_number", "title"), next_number=F("next_number") + 1
    )

    assert found is not None
    assert (found.next_number, found.title) == (before + 1, "Fix login")
    assert found.get_deferred_fields() == {"id"}
    assert Family.objects.get(pk=family.pk).next_number == before + 1


def test_a_whole_row_is_what_a_query_would_find() -> None:
    workspace = Workspace.objects.create(name="Team", slug="team")
    session = store.create(workspace=workspace, provider="hosted", title="A", settings={"sandbox": ["a", None]})
    found = update_returning(Session.objects.filter(pk=session.pk), title="B")

    assert found is not None
    again = Session.objects.get(pk=session.pk)
    names = [field.attname for field in Session._meta.concrete_fields]
    assert {name: getattr(found, name) for name in names} == {name: getattr(again, name) for name in names}
    assert found.title == "B"


def test_a_guard_that_finds_no_row_returns_none_and_changes_nothing() -> None:
    family = Family.objects.create(title="Fix login")

    assert update_returning(Family.objects.filter(pk=family.pk, title="Other"), ("title",), title="New") is None
    assert Family.objects.get(pk=family.pk).title == "Fix login"
