"""Work as rows with leases.

A row is its own queue entry. ``next_run_at`` says when it wants to run next (NULL: there is nothing to do), ``queue``
who may run it. A worker claims it by one guarded update that sets a fresh ``lease_token``; from then on that token in
the WHERE clause of each of its writes is what keeps a worker that lost the row from writing. A lease that ran out only
makes the row claimable again: the token alone decides who owns it.

All times are the database's.
"""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import structlog
from django.db import DatabaseError, connections, models, router, transaction
from django.db.models import F, Q
from django.db.models.expressions import RawSQL

from forkhost.kit import alarms, clock
from forkhost.kit.leased_rows import LeasedRow
from forkhost.kit.returning import update_returning

log = structlog.get_logger(__name__)


Row = TypeVar("Row", bound=LeasedRow)


@dataclass(frozen=True, slots=True)
class Lease:
    """A claimed ``row`` as the claim left it, and the token that every write under this lease has to name."""

    row: Any
    token: uuid.UUID

    @property
    def pk(self) -> Any:
        """The row's primary key."""
        return self.row.pk


def is_due() -> Q:
    """Rows that want to run now and that nobody holds."""
    now = clock.database_now()
    return Q(next_run_at__lte=now) & (Q(lease_until__isnull=True) | Q(lease_until__lte=now))


def claim(queryset: models.QuerySet[Row], owner: str, seconds: float) -> Lease | None:
    """Claim the row of ``queryset`` that has been due longest, for ``seconds``; None when nothing is due.

    ``queryset`` narrows by queue (and whatever else); due and unheld are added here. Two claims never return the same
    row unless the lease ran out in between. Commits before it returns; raises RuntimeError inside a transaction.
    """
    around = connections[queryset.db].atomic_blocks
    # As ``atomic(durable=True)`` has it, which would send a BEGIN.
    if around and not getattr(around[-1], "_from_testcase", False):
        raise RuntimeError("A claim has to be durable, so it cannot be a part of a transaction.")
    due = queryset.filter(is_due()).order_by("next_run_at", "pk").values_list("pk", flat=True)
    claim_due = _claim_locked if connections[due.db].features.has_select_for_update else _claim_unlocked
    return claim_due(queryset, due, owner, seconds)


def _claim_locked(
    queryset: models.QuerySet[Row], due: models.QuerySet[Row, Any], owner: str, seconds: float
) -> Lease | None:
    """Look and take in one statement; rows that others are just taking are passed over."""
    connection = connections[due.db]
    statement, parameters = due[:1].query.get_compiler(connection=connection).as_sql()
    # Django locks rows only between BEGIN and COMMIT, which one statement does not need.
    locking = connection.ops.for_update_sql(skip_locked=True, no_key=True)
    # A locked row stays as it was found.
    rows = _all(queryset).filter(pk=RawSQL(f"{statement} {locking}", parameters))  # noqa: S611
    # A claim that a power cut takes away was none: what is written under it becomes durable with it, and only after it.
    not_waiting = RawSQL("set_config('synchronous_commit', 'off', true) = 'off'", (), models.BooleanField())
    return _take(rows.filter(not_waiting), owner, seconds)


def _claim_unlocked(
    queryset: models.QuerySet[Row], due: models.QuerySet[Row, Any], owner: str, seconds: float
) -> Lease | None:
    """SQLite: look without the one write lock, which an idle worker must not take; the update alone decides."""
    while (pk := due.first()) is not None:
        with transaction.atomic(using=due.db):
            lease = _take(_all(queryset).filter(is_due(), pk=pk), owner, seconds)
        if lease is not None:
            return lease
    return None


def _all(queryset: models.QuerySet[Row]) -> models.QuerySet[Row]:
    return queryset.model._base_manager.using(queryset.db).all()


def _take(rows: models.QuerySet[Row], owner: str, seconds: float) -> Lease | None:
    token = uuid.uuid4()
    row = update_returning(
        rows,
        lease_owner=owner,
        lease_token=token,
        lease_until=clock.database_now(seconds),
        attempts=F("attempts") + 1,
    )
    return None if row is None else Lease(row, token)


def renew(model: type[LeasedRow], pk: Any, token: uuid.UUID, seconds: float) -> bool:
    """Make the lease last ``seconds`` from now. False: the row belongs to somebody else, or to nobody."""
    return bool(_held(model, pk, token).update(lease_until=clock.database_now(seconds)))


def release(
    model: type[LeasedRow], pk: Any, token: uuid.UUID, *, again_in: float | None = None, reset_attempts: bool = False
) -> bool:
    """Give the row back; it wants to run again ``again_in`` seconds from now, or not at all when None.

    False: the lease was lost, and nothing was written.
    """
    values: dict[str, Any] = {
        "lease_owner": "",
        "lease_token": None,
        "lease_until": None,
        "next_run_at": None if again_in is None else clock.database_now(again_in),
    }
    if reset_attempts:
        values["attempts"] = 0
    return bool(_held(model, pk, token).update(**values))


def _held(model: type[LeasedRow], pk: Any, token: uuid.UUID) -> models.QuerySet[LeasedRow]:
    return model._base_manager.using(router.db_for_write(model)).filter(pk=pk, lease_token=token)


class LeaseKeeper:
    """Renews a lease at each third of its length while the ``with`` block runs, from the first on in a thread of its own.

    ``lost`` turns true when the row was taken away, when the database could not be reached for a whole lease, or when
    nothing can renew it. It is advice to stop early; what protects the row is the token in every write.
    """

    def __init__(self, model: type[LeasedRow], lease: Lease, seconds: float) -> None:
        self.model = model
        self.lease = lease
        self.seconds = seconds
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease-{lease.pk}", daemon=True)

    @property
    def lost(self) -> bool:
        """Whether this worker has to stop working on the row."""
        return self._lost.is_set()

    def wait_lost(self, timeout: float) -> bool:
        """Wait until the lease is lost, at most ``timeout`` seconds; whether it is."""
        return self._lost.wait(timeout)

    def __enter__(self) -> Self:
        self._good_until = time.monotonic() + self.seconds
        self._alarm = alarms.ring(self.seconds / 3, self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if not self._alarm.call_off() and self._thread.ident is not None:
            self._thread.join()

    def _begin(self) -> None:
        try:
            self._thread.start()
        except RuntimeError:
            # The system has no thread left; nobody renews the lease any more.
            self._lost.set()
            raise

    def _keep(self) -> None:
        good_until = self._good_until
        try:
            while not self._stop.is_set():
                asked = time.monotonic()
                try:
                    kept = renew(self.model, self.lease.pk, self.lease.token, self.seconds)
                except DatabaseError as error:
                    log.warning("lease_renewal_failed", row=str(self.lease.pk), error=str(error))
                    connections[router.db_for_write(self.model)].close()
                    kept = time.monotonic() < good_until
                else:
                    good_until = asked + self.seconds
                if not kept:
                    log.warning("lease_lost", row=str(self.lease.pk))
                    self._lost.set()
                    return
                self._stop.wait(self.seconds / 3)
        finally:
            connections.close_all()
