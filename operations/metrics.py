"""Numbers about forks for Prometheus, read from the database's rows: every web process gives the same answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import Aggregate, Count, Min, Q
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from forkhost.kit import clock
from operations.choices import OPEN_STATUSES, SETTLEMENTS, Act, Channel, ErrorCode, EvidenceMethod, OperationStatus
from operations.models import Evidence, Notification, Operation, OperationAudit

# Upper bounds of an open operation's age; each operation is in one band.
BANDS = (
    ("under_1m", dt.timedelta(minutes=1)),
    ("under_10m", dt.timedelta(minutes=10)),
    ("under_1h", dt.timedelta(hours=1)),
    ("under_1d", dt.timedelta(days=1)),
)
OLDEST_BAND = "over_1d"
UNSETTLED = (*OPEN_STATUSES, OperationStatus.UNKNOWN)


class OperationsCollector(Collector):
    """Counts when it is asked, and remembers nothing."""

    def collect(self) -> Iterator[Metric]:
        yield from _open_operations()
        yield _gauge("forkhost_operations_needing_person", "Forks that wait for an operator.", _needing_person())
        yield from _leases()
        yield from _acts()
        yield from _looks()
        yield from _notifications()


def exposition() -> bytes:
    """All of it in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(OperationsCollector())
    return generate_latest(registry)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _unsettled() -> Q:
    # Both halves have a partial index; SQLite would not use one on a list of states.
    return Q(next_run_at__isnull=False) | Q(unknown_since__isnull=False)


def _open_operations() -> Iterator[Metric]:
    number = GaugeMetricFamily(
        "forkhost_open_operations", "Forks that are not settled, by state and age.", labels=["state", "age"]
    )
    oldest = GaugeMetricFamily(
        "forkhost_oldest_open_operation_seconds",
        "Age of the oldest fork in a state, 0 when there is none.",
        labels=["state"],
    )
    now = clock.now()
    bounds = {name: now - age for name, age in BANDS}
    younger = now + dt.timedelta(days=1)
    totals: dict[str, Aggregate] = {"oldest": Min("prepared_at")}
    for name, since in bounds.items():
        totals[name] = Count("pk", filter=Q(prepared_at__gt=since, prepared_at__lte=younger))
        younger = since
    totals[OLDEST_BAND] = Count("pk", filter=Q(prepared_at__lte=younger))
    rows = Operation.objects.filter(_unsettled(), status__in=UNSETTLED).order_by().values("status")
    found: dict[str, dict[str, Any]] = {row["status"]: row for row in rows.annotate(**totals)}
    for state in UNSETTLED:
        row = found.get(state, {})
        for band in (*bounds, OLDEST_BAND):
            number.add_metric([state.value, band], row.get(band, 0))
        first = row.get("oldest")
        oldest.add_metric([state.value], (now - first).total_seconds() if first else 0)
    yield number
    yield oldest


def _needing_person() -> int:
    return Operation.objects.filter(needs_person=True).count()


def _leases() -> Iterator[Metric]:
    held = GaugeMetricFamily(
        "forkhost_claims",
        "Forks that a worker has claimed; expired ones are taken back by the sweep.",
        labels=["lease"],
    )
    claimed = Operation.objects.filter(_unsettled(), lease_token__isnull=False)
    alive = claimed.filter(lease_until__gt=clock.database_now()).count()
    held.add_metric(["held"], alive)
    held.add_metric(["expired"], claimed.count() - alive)
    yield held
    due = Operation.objects.filter(next_run_at__lte=clock.database_now(), lease_token__isnull=True)
    yield _gauge("forkhost_due_operations", "Forks that wait for a worker now.", due.count())
    lost = OperationAudit.objects.filter(reason=Act.UNKNOWN, detail__code=ErrorCode.WORKER_LOST).count()
    yield CounterMetricFamily(
        "forkhost_lease_losses", "Workers that were lost while a fork was being sent.", value=lost
    )


def _acts() -> Iterator[Metric]:
    acts = CounterMetricFamily("forkhost_acts", "What happened to forks, as their ledgers say.", labels=["act"])
    settled = CounterMetricFamily("forkhost_settlements", "How unknown forks were settled.", labels=["kind"])
    kinds = dict.fromkeys(SETTLEMENTS, 0)
    rows = OperationAudit.objects.order_by().values_list("reason", "from_status")
    totals: dict[str, int] = dict.fromkeys(Act.values, 0)
    for reason, before, number in rows.annotate(number=Count("pk")):
        totals[reason] = totals.get(reason, 0) + number
        if before == OperationStatus.UNKNOWN and reason in kinds:
            kinds[Act(reason)] += number
    for act, number in totals.items():
        acts.add_metric([act], number)
    for kind, number in kinds.items():
        settled.add_metric([kind.value], number)
    yield acts
    yield settled


def _looks() -> Iterator[Metric]:
    looks = CounterMetricFamily("forkhost_looks", "What was read about forks, and how it came.", labels=["method"])
    found = dict(Evidence.objects.order_by().values_list("method").annotate(number=Count("pk")))
    for method in EvidenceMethod:
        looks.add_metric([method.value], found.get(method, 0))
    yield looks


def _notifications() -> Iterator[Metric]:
    waiting = GaugeMetricFamily(
        "forkhost_notifications", "Messages that were not delivered yet, or given up.", labels=["channel", "state"]
    )
    rows = Notification.objects.filter(delivered_at__isnull=True).order_by().values("channel")
    found: dict[str, Mapping[str, Any]] = {
        row["channel"]: row
        for row in rows.annotate(
            due=Count("pk", filter=Q(given_up_at__isnull=True)), over=Count("pk", filter=Q(given_up_at__isnull=False))
        )
    }
    for channel in Channel:
        row = found.get(channel, {})
        waiting.add_metric([channel.value, "waiting"], row.get("due", 0))
        waiting.add_metric([channel.value, "given_up"], row.get("over", 0))
    yield waiting
