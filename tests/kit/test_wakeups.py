"""A committed change wakes a waiting worker at once, on both databases."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection, connections, transaction

from forkhost.kit import wakeups
from tests.kit.conftest import Job

CHANNEL = "Kit-Tests"
LONG = 20.0


@pytest.fixture
def listener(jobs: type[Job]) -> Iterator[wakeups.Listener]:
    with wakeups.Listener(CHANNEL) as listening:
        yield listening


def change(channel: str = CHANNEL) -> None:
    with transaction.atomic():
        Job.objects.create()
        wakeups.notify(channel, "hint")


def wait_in_thread(listener: wakeups.Listener) -> tuple[threading.Thread, list[tuple[bool, float]]]:
    answers: list[tuple[bool, float]] = []
    begun = time.monotonic()
    thread = threading.Thread(target=lambda: answers.append((listener.wait(LONG), time.monotonic() - begun)))
    thread.start()
    return thread, answers


def test_a_commit_wakes_a_waiting_listener(listener: wakeups.Listener) -> None:
    thread, answers = wait_in_thread(listener)
    change()
    thread.join(LONG)
    [(woken, seconds)] = answers
    assert woken
    assert seconds < LONG / 2


def test_a_commit_before_the_wait_is_not_missed_and_wakes_once(listener: wakeups.Listener) -> None:
    change()
    assert listener.wait(LONG)
    assert not listener.wait(0.05)


def test_without_a_change_the_time_runs_out(listener: wakeups.Listener) -> None:
    begun = time.monotonic()
    assert not listener.wait(0.1)
    assert 0.1 <= time.monotonic() - begun < LONG / 2


def test_nothing_is_heard_before_the_commit_and_nothing_of_a_rollback(listener: wakeups.Listener) -> None:
    with transaction.atomic():
        Job.objects.create()
        wakeups.notify(CHANNEL)
        assert not listener.wait(0.05)
        transaction.set_rollback(True)
    assert not listener.wait(0.05)


def test_another_channel_is_not_heard_on_postgresql(listener: wakeups.Listener, vendor: str) -> None:
    change("somebody_else")
    assert listener.wait(0.2) == (vendor == "sqlite")


def test_a_wait_ends_when_woken_from_another_thread(listener: wakeups.Listener) -> None:
    thread, answers = wait_in_thread(listener)
    listener.wake()
    thread.join(LONG)
    assert answers[0][0]
    assert answers[0][1] < LONG / 2


def test_a_lost_connection_is_opened_again_and_counts_as_a_wake_up(listener: wakeups.Listener, vendor: str) -> None:
    if vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND datname = %s",
                [connection.settings_dict["NAME"]],
            )
    else:
        listener._source.close()
    assert listener.wait(LONG)
    change()
    assert listener.wait(LONG)
    assert not listener.wait(0.05)


def test_a_closed_listener_leaves_no_connection_behind(jobs: type[Job], vendor: str) -> None:
    wakeups.Listener(CHANNEL).close()
    if vendor == "postgresql":
        params = connections["default"].get_connection_params()
        with psycopg.connect(host=params["host"], user=params["user"], dbname=params["dbname"]) as other:
            left = other.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").fetchone()
        assert left == (0,)


def test_waking_a_closed_listener_touches_no_file_that_was_opened_since(jobs: type[Job], tmp_path: Path) -> None:
    closed = wakeups.Listener(CHANNEL)
    closed.close()
    closed.close()
    files = [(tmp_path / str(number)).open("wb") for number in range(8)]
    closed.wake()
    for file in files:
        file.close()
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b""}
