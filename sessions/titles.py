"""Titles of forks: the family root's title and the family's next number."""

from __future__ import annotations

import uuid

from django.db.models import F

from forkhost.kit.returning import update_returning
from sessions.choices import SessionKind
from sessions.models import Family, Session

UNTITLED = "Untitled session"


def fork_title(family_id: uuid.UUID) -> str:
    """The next fork's title, its number taken: "Fix login (2)", then "(3)"; a fork of "(2)" is "(3)" as well.

    A number is never given twice: the family's row stays locked until the transaction ends. Raises
    ``Family.DoesNotExist``.
    """
    family = update_returning(
        Family.objects.filter(pk=family_id), ("next_number", "title"), next_number=F("next_number") + 1
    )
    if family is None:
        raise Family.DoesNotExist(f"There is no family {family_id}.")
    return f"{family.title or UNTITLED} ({family.next_number - 1})"


def name_family(session: Session, title: str) -> None:
    """Call the family after ``session`` if that is its root; forks do not rename it."""
    if session.kind == SessionKind.ROOT and session.fork_operation_id is None and session.observed_parent_id is None:
        Family.objects.filter(pk=session.family_id).update(title=title)
