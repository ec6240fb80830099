"""A row is worked on by whoever holds its token, and by nobody else."""

from __future__ import annotations

import threading
import uuid
from collections import Counter

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from forkhost.kit import clock, leases
from tests.kit.conftest import Job
from tests.threads import together

HOUR = 3600


def due_job(queue: str = "here", ago: float = 1) -> Job:
    job = Job.objects.create(queue=queue)
    Job.objects.filter(pk=job.pk).update(next_run_at=clock.database_now(-ago))
    return job


def claim(owner: str = "w1", seconds: float = HOUR, queue: str = "here") -> leases.Lease | None:
    return leases.claim(Job.objects.filter(queue=queue), owner, seconds)


def claimed(owner: str = "w1", seconds: float = HOUR) -> leases.Lease:
    lease = claim(owner, seconds)
    assert lease is not None
    return lease


def test_a_due_row_is_claimed_once(jobs: type[Job]) -> None:
    job = due_job()
    lease = claimed()
    assert lease.pk == job.pk
    assert claim("w2") is None
    job.refresh_from_db()
    assert (job.lease_owner, job.lease_token, job.attempts) == ("w1", lease.token, 1)


def test_nothing_is_claimed_before_its_time_or_without_one(jobs: type[Job]) -> None:
    due_job(ago=-HOUR)
    Job.objects.create(queue="here")
    assert claim() is None


def test_only_the_rows_of_the_query_are_claimed(jobs: type[Job]) -> None:
    due_job(queue="elsewhere")
    assert claim() is None
    assert claim(queue="elsewhere") is not None


def test_the_row_due_longest_comes_first(jobs: type[Job]) -> None:
    late, early = due_job(ago=10), due_job(ago=20)
    assert [claimed().pk, claimed().pk] == [early.pk, late.pk]


def test_a_lease_that_ran_out_is_claimed_by_another_and_the_first_is_shut_out(jobs: type[Job]) -> None:
    job = due_job()
    first = claimed("w1", seconds=-1)
    second = claimed("w2")
    assert second.pk == job.pk
    assert second.token != first.token
    assert not leases.renew(Job, first.pk, first.token, HOUR)
    assert not leases.release(Job, first.pk, first.token)
    assert leases.renew(Job, second.pk, second.token, HOUR)
    job.refresh_from_db()
    assert (job.lease_owner, job.attempts) == ("w2", 2)


def test_a_renewed_lease_lasts_longer(jobs: type[Job]) -> None:
    due_job()
    lease = claimed(seconds=-1)
    assert leases.renew(Job, lease.pk, lease.token, HOUR)
    assert claim("w2") is None


@pytest.mark.parametrize("again_in", [None, HOUR])
def test_a_released_row_rests_until_it_wants_to_run_again(jobs: type[Job], again_in: float | None) -> None:
    job = due_job()
    lease = claimed()
    assert leases.release(Job, lease.pk, lease.token, again_in=again_in)
    job.refresh_from_db()
    assert (job.lease_owner, job.lease_token, job.lease_until) == ("", None, None)
    assert (job.next_run_at is None) == (again_in is None)
    assert job.attempts == 1
    assert claim() is None


def test_a_row_released_for_now_is_claimed_again_with_its_attempts_counted_or_reset(jobs: type[Job]) -> None:
    job = due_job()
    for reset, attempts in ((False, 2), (True, 1)):
        lease = claimed()
        leases.release(Job, lease.pk, lease.token, again_in=0, reset_attempts=reset)
        again = claimed()
        job.refresh_from_db()
        assert job.attempts == attempts
        leases.release(Job, again.pk, again.token, again_in=0, reset_attempts=True)


def test_the_clock_that_decides_can_be_held(jobs: type[Job]) -> None:
    due_job()
    with clock.held() as held:
        held.advance(60)
        claimed("w1", seconds=30)
        held.advance(29)
        assert claim("w2") is None
        held.advance(2)
        assert claim("w2") is not None


def test_many_workers_at_once_share_the_rows_without_taking_one_twice(jobs: type[Job]) -> None:
    wanted = {due_job().pk for _ in range(24)}

    def work(owner: str) -> list[int]:
        mine: list[int] = []
        while (lease := claim(owner)) is not None or Job.objects.filter(lease_token=None).exists():
            if lease is not None:
                mine.append(lease.pk)
        return mine

    taken = Counter(pk for mine in together([lambda n=n: work(f"w{n}") for n in range(4)]) for pk in mine)
    assert set(taken) == wanted
    assert set(taken.values()) == {1}


def test_a_row_that_another_transaction_holds_is_stepped_over(jobs: type[Job], vendor: str) -> None:
    if vendor == "sqlite":
        # One writer at a time: there is no row that somebody else could hold.
        assert not connection.features.has_select_for_update
        return
    first, second = due_job(ago=20), due_job(ago=10)
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=first.pk)
        [lease] = together([claim])
    assert lease is not None
    assert lease.pk == second.pk


@pytest.mark.usefixtures("jobs")
def test_an_idle_claim_is_one_statement_and_takes_no_write_lock() -> None:
    with CaptureQueriesContext(connection) as queries:
        assert claim() is None
    assert len(queries) == 1, [query["sql"] for query in queries]


def test_a_claim_inside_a_transaction_is_refused(jobs: type[Job]) -> None:
    due_job()
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        claim()


def test_the_claim_uses_its_index(jobs: type[Job], vendor: str) -> None:
    due = Job.objects.filter(leases.is_due(), queue="here").order_by("next_run_at", "pk")
    with connection.cursor() as cursor:
        if vendor == "postgresql":
            cursor.execute("SET enable_seqscan = off")
        plan = due.explain()
        if vendor == "postgresql":
            cursor.execute("RESET enable_seqscan")
    assert "job_due" in plan


def test_a_keeper_keeps_the_lease_while_the_work_goes_on(jobs: type[Job]) -> None:
    job = due_job()
    lease = claimed(seconds=0.3)
    with leases.LeaseKeeper(Job, lease, 0.3) as keeper:
        assert not keeper.wait_lost(0.9)
        assert claim("w2") is None
    job.refresh_from_db()
    assert job.lease_token == lease.token


def test_a_keeper_says_when_the_lease_was_taken_away(jobs: type[Job]) -> None:
    due_job()
    lease = claimed(seconds=0.3)
    with leases.LeaseKeeper(Job, lease, 0.3) as keeper:
        Job.objects.filter(pk=lease.pk).update(lease_token=uuid.uuid4())
        assert keeper.wait_lost(10)
        assert keeper.lost


def test_a_keeper_gives_up_after_a_whole_lease_without_the_database(
    jobs: type[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    due_job()
    lease = claimed()
    tries = threading.Semaphore(0)

    def renew(*_: object) -> bool:
        tries.release()
        raise connections["default"].Database.OperationalError("away")

    monkeypatch.setattr(leases, "renew", renew)
    monkeypatch.setattr(leases, "DatabaseError", connections["default"].Database.OperationalError)
    with leases.LeaseKeeper(Job, lease, 0.3) as keeper:
        assert tries.acquire(timeout=10)
        assert not keeper.lost
        assert keeper.wait_lost(10)


def test_a_keeper_that_gets_no_thread_says_so_and_lets_the_work_end(jobs: type[Job]) -> None:
    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    due_job()
    keeper = leases.LeaseKeeper(Job, claimed(), 0.3)
    keeper._thread.start = refuse  # type: ignore[method-assign]
    with keeper:
        assert keeper.wait_lost(10)
