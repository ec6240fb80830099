"""What is to be done later is done once, unless it is called off."""

from __future__ import annotations

import threading

from forkhost.kit import alarms


def test_an_alarm_goes_off_once_and_cannot_be_called_off_then() -> None:
    rang = threading.Semaphore(0)

    alarm = alarms.ring(0.01, rang.release)

    assert rang.acquire(timeout=10)
    assert not alarm.call_off()
    assert not rang.acquire(blocking=False)


def test_an_alarm_that_was_called_off_is_silent() -> None:
    rang, later = threading.Event(), threading.Event()
    first = alarms.ring(0.05, rang.set)

    assert first.call_off()

    alarms.ring(0.1, later.set)
    assert later.wait(10)
    assert not rang.is_set()


def test_an_earlier_alarm_that_comes_second_is_not_kept_waiting() -> None:
    order: list[str] = []
    both = threading.Event()
    alarms.ring(0.2, lambda: (order.append("later"), both.set())[0])
    alarms.ring(0.01, lambda: order.append("sooner"))

    assert both.wait(10)
    assert order == ["sooner", "later"]


def test_one_that_fails_keeps_no_other_from_going_off() -> None:
    rang = threading.Event()

    def fail() -> None:
        raise RuntimeError("no thread left")

    alarms.ring(0.01, fail)
    alarms.ring(0.02, rang.set)

    assert rang.wait(10)


def test_whoever_calls_off_waits_for_what_is_under_way() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def act() -> None:
        begun.set()
        may_end.wait(10)
        ended.set()

    alarm = alarms.ring(0.01, act)
    assert begun.wait(10)
    threading.Timer(0.05, may_end.set).start()

    assert not alarm.call_off()
    assert ended.is_set()
