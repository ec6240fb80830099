"""Titles of forks: the family root's title and the family's next number."""

from __future__ import annotations

import uuid

from django.db.models import F

from forkhost.kit.returning import update_returning
from sessions.choices import SessionKind
from sessions.models import Family, Session

UNTITLED = "Untitled session"


def take_number(family_id: uuid.UUID) -> int:
    """The family's next number, never given twice: the update locks the family's row until the transaction ends.

    Raises ``Family.DoesNotExist``.
    """
    return _take(family_id)[0]


def fork_title(family: Family | uuid.UUID) -> str:
    """The next fork's title, its number taken: "Fix login (2)", then "(3)"; a fork of "(2)" is "(3)" as well."""
    number, base = _take(family.pk if isinstance(family, Family) else family)
    return f"{base or UNTITLED} ({number})"


def _take(family_id: uuid.UUID) -> tuple[int, str]:
    rows = Family.objects.filter(pk=family_id)
    taken = update_returning(rows, ("next_number", "title"), next_number=F("next_number") + 1)
    if taken is None:
        raise Family.DoesNotExist(f"There is no family {family_id}.")
    number, title = taken
    return int(number) - 1, str(title)


def name_family(session: Session, title: str) -> None:
    """Call the family after ``session`` if that is its root; forks do not rename it."""
    if session.kind == SessionKind.ROOT and session.fork_operation_id is None and session.observed_parent_id is None:
        Family.objects.filter(pk=session.family_id).update(title=title)
