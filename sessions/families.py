"""Joins sessions that belong together: forks made outside forkhost share the family of the session they came from.

Such a parent is *observed*: the provider's own record names it. It is no lineage, which only our operations make.
"""

from __future__ import annotations

import uuid

import structlog
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest

from sessions.models import Family, Session

log = structlog.get_logger(__name__)

DEPTH_LIMIT = 1000


def link_observed_parents(home_id: uuid.UUID) -> int:
    """Tie sessions of the home to the parents their transcripts name, as far as those are known by now; how many.

    A session that names itself, or a parent that descends from it, stays unlinked. A child of one of our own
    operations has its lineage and needs no observed parent.
    """
    linked = 0
    unlinked = Session.objects.filter(
        ~Q(observed_parent_provider_id=""), home_id=home_id, observed_parent_id=None, fork_operation_id=None
    )
    rows = list(unlinked.values_list("pk", "observed_parent_provider_id"))
    parents = dict(
        Session.objects.filter(
            home_id=home_id, provider_session_id__in={provider_id for _, provider_id in rows}
        ).values_list("provider_session_id", "pk")
    )
    for child_id, provider_id in rows:
        parent_id = parents.get(provider_id)
        if parent_id is not None and link(child_id, parent_id):
            linked += 1
    return linked


def link(child_id: uuid.UUID, parent_id: uuid.UUID) -> bool:
    """Make ``parent_id`` the observed parent and join the families. False: that would be a cycle, or it has one."""
    if _descends(parent_id, child_id):
        log.warning("observed_parent_ignored", session=str(child_id), parent=str(parent_id))
        return False
    with transaction.atomic():
        child = Session.objects.filter(pk=child_id, observed_parent_id=None)
        changed = child.update(observed_parent_id=parent_id, version=F("version") + 1)
        if changed:
            _join(child_id, parent_id)
    return bool(changed)


def _descends(session_id: uuid.UUID, ancestor_id: uuid.UUID) -> bool:
    """Whether ``session_id`` is ``ancestor_id`` or was forked, however indirectly, from it."""
    current: uuid.UUID | None = session_id
    for _ in range(DEPTH_LIMIT):
        if current is None:
            return False
        if current == ancestor_id:
            return True
        current = Session.objects.filter(pk=current).values_list("observed_parent_id", flat=True).first()
    return True


def _join(child_id: uuid.UUID, parent_id: uuid.UUID) -> None:
    """Move the child's family into the parent's. The emptied row stays: a fork under way may have frozen its id."""
    ids = dict(Session.objects.filter(pk__in=(child_id, parent_id)).values_list("pk", "family_id"))
    old, new = ids[child_id], ids[parent_id]
    if old == new:
        return
    # Sessions before families, as everywhere.
    list(Session.objects.filter(family_id=old).order_by("pk").select_for_update(no_key=True).values_list("pk"))
    families = {
        family.pk: family for family in Family.objects.filter(pk__in=(old, new)).order_by("pk").select_for_update()
    }
    Session.objects.filter(family_id=old).update(family_id=new)
    Family.objects.filter(pk=new).update(next_number=Greatest("next_number", families[old].next_number))
