"""An update can say in one statement what it made of its row."""

from __future__ import annotations

import pytest
from django.db.models import F

from forkhost.kit.returning import update_returning
from sessions.models import Family

pytestmark = pytest.mark.django_db


def test_the_row_is_returned_as_the_update_left_it() -> None:
    family = Family.objects.create(title="Fix login")
    before = Family.objects.get(pk=family.pk).next_number

    found = update_returning(
        Family.objects.filter(pk=family.pk), ("next_number", "title"), next_number=F("next_number") + 1
    )

    assert found == (before + 1, "Fix login")
    assert Family.objects.get(pk=family.pk).next_number == before + 1


def test_a_guard_that_finds_no_row_returns_none_and_changes_nothing() -> None:
    family = Family.objects.create(title="Fix login")

    assert update_returning(Family.objects.filter(pk=family.pk, title="Other"), ("title",), title="New") is None
    assert Family.objects.get(pk=family.pk).title == "Fix login"
