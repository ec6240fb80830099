"""On SQLite a transaction waits for the one write lock, gets it as soon as it is free, and gives up in the end."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator

import pytest
from django.db import connection, transaction
from django.db.backends.sqlite3 import base as django_sqlite
from django.db.utils import OperationalError

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other() -> Iterator[sqlite3.Connection]:
    """Another writer of the same file."""
    made = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, check_same_thread=False)
    yield made
    made.close()


def busy_timeout() -> int:
    with connection.cursor() as cursor:
        return int(cursor.execute("PRAGMA busy_timeout").fetchone()[0])


def test_a_transaction_begins_when_the_other_writer_ends(other: sqlite3.Connection) -> None:
    connection.ensure_connection()
    other.execute("BEGIN IMMEDIATE")
    ended: list[float] = []

    def end() -> None:
        time.sleep(0.1)
        ended.append(time.monotonic())
        other.execute("COMMIT")

    thread = threading.Thread(target=end)
    thread.start()
    with transaction.atomic():
        begun = time.monotonic()
    thread.join()

    assert begun >= ended[0]


def test_a_lock_that_is_never_given_back_is_waited_for_as_long_as_was_said(
    other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.ensure_connection()
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.2)
    other.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()

    with pytest.raises(OperationalError, match="locked"), transaction.atomic():
        pass

    assert time.monotonic() - begun >= 0.2
    other.execute("ROLLBACK")
    with transaction.atomic():
        pass


def test_a_statement_outside_of_a_transaction_still_waits_as_sqlite_does() -> None:
    with transaction.atomic():
        pass

    assert busy_timeout() == connection.settings_dict["OPTIONS"]["timeout"] * 1000


def test_threads_of_one_process_take_turns_and_none_is_left_in_line() -> None:
    done: list[int] = []

    def write(number: int) -> None:
        try:
            for _ in range(20):
                with transaction.atomic():
                    time.sleep(0.0005)
                with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                    raise ZeroDivisionError
            done.append(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sorted(done) == [0, 1, 2, 3]


def test_a_connection_that_is_closed_inside_its_transaction_gives_its_turn_back() -> None:
    def leave() -> None:
        with contextlib.suppress(Exception), transaction.atomic():
            connection.close()

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join(10)

    with transaction.atomic():
        pass


@pytest.mark.parametrize("step", ["_commit", "_rollback"])
def test_a_transaction_that_is_interrupted_while_it_ends_keeps_nobody_in_line(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(connection: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(django_sqlite.DatabaseWrapper, step, interrupted)
        with pytest.raises(KeyboardInterrupt), transaction.atomic():
            transaction.set_rollback(step == "_rollback")

    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.2)
    with transaction.atomic():
        pass
